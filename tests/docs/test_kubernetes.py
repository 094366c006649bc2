"""docs/examples/kubernetes and kubernetes-executors: each manifest, and a run's Job, against Kubernetes' schemas.

There is no cluster here: what only a cluster would show (images, networks, rights, probes) is not tested.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import kubernetes_validate
import pytest
import yaml
from dagster._config import process_config
from dagster._core.instance.ref import InstanceRef
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_k8s import K8sRunLauncher
from dagster_k8s.job import construct_dagster_k8s_job
from kubernetes import client

from platform_defs.settings.settings import unknown_variables
from platform_defs.spark.session import ENCRYPTED, SECRET, is_encrypted
from tests.docs.test_commands import ROOT

FOLDER = ROOT / "docs" / "examples" / "kubernetes"
EXECUTORS = FOLDER.with_name("kubernetes-executors")
VERSIONS = ("1.30", "1.37")
NOWHERE = {
    "clusters": [{"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
    "users": [{"name": "nobody", "user": {}}],
    "current-context": "nowhere",
}
pytestmark = pytest.mark.slow


def manifests() -> list[tuple[str, dict[str, Any]]]:
    """Return each manifest with its file's name, except what only kustomize reads. Patches come last."""
    found = [*sorted(FOLDER.glob("*.yaml")), *sorted(EXECUTORS.glob("*.yaml"))]
    files = [path for path in found if path.name != "kustomization.yaml"]
    return [(path.name, item) for path in files for item in yaml.safe_load_all(path.read_text())]


def data(name: str) -> dict[str, str]:
    """Return the data of each ConfigMap or Secret of this name, by key, with what the executors add."""
    return {
        key: value
        for _, item in manifests()
        if item["kind"] in ("ConfigMap", "Secret") and item["metadata"]["name"] == name
        for key, value in (item.get("data") or item["stringData"]).items()
    }


def named(item: Any, key: str) -> Iterator[Any]:
    """Yield every value of this key, however deep."""
    for name, value in item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ():
        if name == key:
            yield value
        yield from named(value, key)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [pytest.param(item, id=f"{file}-{item['kind']}") for file, item in manifests()])
def test_a_manifest_is_as_kubernetes_has_it(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("folder", [FOLDER, EXECUTORS], ids=lambda folder: folder.name)
def test_every_file_is_applied(folder: Path) -> None:
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())
    patches = [one["path"] for one in listed.get("patches", [])]
    applied = [*listed["resources"], *patches, "kustomization.yaml"]
    assert {*applied} - {"../kubernetes"} == {path.name for path in folder.glob("*.yaml")}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not a package of Python's")
@pytest.mark.parametrize("folder", [FOLDER, EXECUTORS], ids=lambda folder: folder.name)
def test_kustomize_builds_it(folder: Path) -> None:
    """Bases, patches and images fit together; this needs no cluster."""
    built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    items = list(yaml.safe_load_all(built))
    assert set(named(items, "image")) == {"registry.example.com/tidegate:0.3.0"}
    (settings,) = [one["data"] for one in items if one["metadata"]["name"] == "tidegate-settings"]
    assert settings.items() <= data("tidegate-settings").items()
    assert ("TIDEGATE_SPARK_MASTER" in settings) == (folder == EXECUTORS)


def test_what_a_pod_refers_to_is_there() -> None:
    there = {(item["kind"], item["metadata"]["name"]) for _, item in manifests()}
    for file, item in manifests():
        assert {("ConfigMap", one["name"]) for one in named(item, "configMapRef")} <= there, file
        assert {("ConfigMap", one["name"]) for one in named(item, "configMap")} <= there, file
        assert {("Secret", one["secretName"]) for one in named(item, "secret")} <= there, file
        assert {("ServiceAccount", one) for one in named(item, "serviceAccountName")} <= there, file


def test_the_settings_are_settings_and_each_secret_is_a_file_that_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    given = data("tidegate-settings")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert unknown_variables() == []
    files = {value for name, value in given.items() if name.endswith("_FILE")}
    assert files == {f"/run/secrets/tidegate/{key}" for key in data("tidegate")}


def launcher(folder: Path) -> K8sRunLauncher:
    """Return the launcher of the manifests, with a cluster that is not there."""
    config = yaml.safe_load(data("tidegate-dagster")["dagster.yaml"])["run_launcher"]["config"]
    checked = process_config(K8sRunLauncher.config_type(), config)
    assert checked.success, checked.errors
    nowhere = folder / "kubeconfig"
    nowhere.write_text(yaml.safe_dump(NOWHERE))
    outside = {"load_incluster_config": False, "kubeconfig_file": str(nowhere)}
    return K8sRunLauncher(**{**(checked.value or {}), **outside})


@pytest.mark.parametrize("version", VERSIONS)
def test_the_job_of_a_run_is_as_kubernetes_has_it_and_has_its_secrets(version: str, tmp_path: Path) -> None:
    running = launcher(tmp_path)
    run = dg.DagsterRun("drain", run_id="5f2c1a52-0000-4000-8000-000000000000")
    context = running.get_container_context_for_run(run)
    made = construct_dagster_k8s_job(
        context.get_k8s_job_config(None, running),
        ["dagster", "api", "execute_run"],
        "dagster-run-5f2c1a52",
        context.run_k8s_config,
    )
    job: Any = client.ApiClient().sanitize_for_serialization(made)
    kubernetes_validate.validate(job, version, strict=True)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {"/run/secrets/tidegate", "/var/lib/tidegate", "/dagster"} <= set(mounts)
    assert {volume["name"] for volume in pod["volumes"]} >= set(mounts.values())
    assert container["envFrom"] == [{"configMapRef": {"name": "tidegate-settings"}}]
    assert (pod["serviceAccountName"], pod["terminationGracePeriodSeconds"]) == ("tidegate", 120)
    assert container["image"] == "registry.example.com/tidegate:0.3.0"
    assert pod["enableServiceLinks"] is False


def templates() -> Iterator[tuple[str, Any]]:
    """Yield the spec of each Deployment, with its file."""
    for file, item in manifests():
        yield from ((file, spec) for spec in named(item, "spec") if "template" in spec)


def test_no_pod_gets_the_variables_of_services_which_begin_as_settings_do() -> None:
    pods = {file: spec["template"]["spec"] for file, spec in templates()}
    assert pods.keys() == {"code.yaml", "daemon.yaml", "webserver.yaml", "spark.yaml"}
    assert {spec["template"]["spec"].get("enableServiceLinks") for _, spec in templates()} == {False}


def test_dagsters_grpc_is_reached_by_the_web_server_and_the_daemon_alone() -> None:
    labels = [spec["template"]["metadata"]["labels"] for _, spec in templates()]
    serving = [
        spec["template"]["metadata"]["labels"]
        for _, spec in templates()
        if any("grpc" in one.get("command", []) for one in spec["template"]["spec"]["containers"])
    ]
    policies = [item["spec"] for _, item in manifests() if item["kind"] == "NetworkPolicy"]
    assert len(serving) == 1
    (policy,) = [one for one in policies if selects(one["podSelector"], serving[0])]
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    (peer,) = rule["from"]
    allowed = {one["app.kubernetes.io/component"] for one in labels if selects(peer["podSelector"], one)}
    assert (peer.keys(), allowed) == ({"podSelector"}, {"webserver", "daemon"})


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return True if a label selector selects a pod with these labels."""
    assert {one["operator"] for one in selector.get("matchExpressions", [])} <= {"In"}
    named = [labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", [])]
    return all(named) and selector.get("matchLabels", {}).items() <= labels.items()


def test_executors_know_runs_by_their_secret_take_their_tasks_encrypted_and_have_their_files() -> None:
    """tests/integration/engine/test_standalone.py runs transfers through a cluster with this very spark.conf."""
    given, secrets = data("tidegate-settings"), data("tidegate")
    conf = dict(line.split() for line in data("tidegate-spark")["spark.conf"].splitlines())
    assert conf[SECRET] == secrets[Path(given["TIDEGATE_SPARK_SECRET_FILE"]).name]
    assert is_encrypted({"spark.master": given["TIDEGATE_SPARK_MASTER"], **conf})
    assert conf.items() >= {name: value for name, value in ENCRYPTED.items() if name != SECRET}.items()
    specs = {spec["selector"]["matchLabels"]["app.kubernetes.io/component"]: spec for _, spec in templates()}
    (worker,) = specs["spark-worker"]["template"]["spec"]["containers"]
    assert "/run/secrets/tidegate" in {mount["mountPath"] for mount in worker["volumeMounts"]}
    assert worker["args"][-1] == given["TIDEGATE_SPARK_MASTER"]
    instance = yaml.safe_load(data("tidegate-dagster")["dagster.yaml"])
    cores = int(worker["args"][worker["args"].index("--cores") + 1]) * specs["spark-worker"]["replicas"]
    assert cores >= int(conf["spark.deploy.defaultCores"]) * instance["concurrency"]["runs"]["max_concurrent_runs"]


def test_dagster_takes_the_instance_and_the_workspace(tmp_path: Path) -> None:
    for name, text in data("tidegate-dagster").items():
        (tmp_path / name).write_text(text)
    ref = InstanceRef.from_dir(str(tmp_path))
    parts = (ref.compute_logs_data, ref.run_launcher_data, ref.local_artifact_storage_data)
    classes = {one.module_name: one.class_name for one in parts if one}
    assert classes == {
        "dagster._core.storage.noop_compute_log_manager": "NoOpComputeLogManager",
        "dagster_k8s": "K8sRunLauncher",
        "platform_defs.dagster.storage": "Artifacts",
    }
    for given in (ref, InstanceRef.from_dir(str(ROOT))):
        assert given.settings["nux"] == {"enabled": False}, "the UI asks each new browser to join Dagster's community"
    (origin,) = WorkspaceFileTarget([str(tmp_path / "workspace.yaml")]).create_origins()
    assert origin.location_name == "tidegate"

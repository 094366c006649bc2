"""`tidegate topics apply`, killed at any point and run again, has the same result as if it had not been killed."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.kafka.topic_sites import Site

COMMAND = (sys.executable, "-c", "from platform_defs.cli.main import main; main()", "topics", "apply", "--yes")
OLD, NEW = range(10), range(10, 20)


def declare(site: Site) -> None:
    """Declare ten topics to configure and give partitions, and ten to create."""
    for number in OLD:
        site.world.create_topic(name(site, number), 1)
    lines = ([f"- name: {name(site, n)}", "  partitions: 3", "  config: {retention.ms: 7200000}"] for n in (*OLD, *NEW))
    site.list_others(*(line for entry in lines for line in entry))


def name(site: Site, number: int) -> str:
    return f"{site.name}.n{number}"


def state(site: Site) -> list[tuple[int, dict[str, str]]]:
    found = site.admin.observe([name(site, number) for number in (*OLD, *NEW)]).topics
    return [(len(found[name(site, n)].partitions), dict(found[name(site, n)].overrides)) for n in (*OLD, *NEW)]


@pytest.mark.longest
@pytest.mark.parametrize("lines", [0, 1, 9, 13, 21, 29])
def test_an_apply_that_was_killed_is_run_again(site: Site, lines: int) -> None:
    """`lines` is the number of steps reported before the kill, out of 30."""
    declare(site)
    named = ("--cluster-id", site.admin.observe([]).cluster_id)
    with subprocess.Popen(
        (*COMMAND, *named), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=dict(os.environ)
    ) as run:
        assert run.stderr is not None
        reported = 0
        while reported < lines:
            reported += "warning" not in run.stderr.readline()
        run.send_signal(signal.SIGKILL)
        assert run.wait(30) == -signal.SIGKILL
    site.apply(*named)
    assert site.run("plan", "--exit-code").code == 0
    assert state(site) == [(3, {"retention.ms": "7200000"})] * 20

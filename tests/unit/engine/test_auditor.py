"""Great Expectations takes seconds to import: it is imported only to evaluate a batch rule."""

import subprocess
import sys
from dataclasses import replace

import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.commit import auditor
from platform_defs.engine.commit.auditor import GreatExpectationsAuditor
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.settings.contracts import find_pipeline

NOT_IMPORTED = """
import sys
import platform_defs.engine.batch, platform_defs.runs.explain, platform_defs.runs.open_run
from platform_defs.engine.commit.auditor import GreatExpectationsAuditor
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
assert GreatExpectationsAuditor("postgresql://nowhere").evaluate((), AuditView("s", "v")) == []
assert "great_expectations" not in sys.modules
"""

WITHOUT_SCIPY = """
import gc
import sys
from platform_defs.engine.commit.auditor import load
load()
assert "scipy.stats._stats_py" not in sys.modules
assert gc.isenabled()
from great_expectations.expectations.core import expect_column_kl_divergence_to_be_less_than as rule
assert rule.stats.entropy([0.5, 0.5], [0.5, 0.5]) == 0.0
"""


def without_rules(contract: Contract) -> Contract:
    return replace(contract, tables=tuple(replace(table, batch_rules=()) for table in contract.tables))


@pytest.mark.slow
@pytest.mark.long
def test_neither_the_engine_nor_an_audit_without_rules_imports_great_expectations() -> None:
    subprocess.run([sys.executable, "-c", NOT_IMPORTED], check=True, timeout=60)


@pytest.mark.longest
@pytest.mark.long
def test_it_is_imported_without_scipys_statistics_until_a_rule_wants_them() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_SCIPY], check=True, timeout=60)


def test_it_is_imported_in_advance_only_for_a_pipeline_with_batch_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(auditor, "load", lambda: loaded.append("great_expectations"))
    contract = find_pipeline("bank_transfers").contract
    auditor.warm_up([without_rules(contract)])
    assert loaded == []
    auditor.warm_up([contract])
    for thread in auditor.threading.enumerate():
        if thread.name == "import great_expectations":
            thread.join(5)
    assert loaded == ["great_expectations"]


def test_no_rules_have_no_results() -> None:
    assert GreatExpectationsAuditor("postgresql://nowhere").evaluate((), AuditView("s", "v")) == []

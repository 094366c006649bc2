"""Great Expectations takes six seconds to import: only where a batch rule is judged."""

import subprocess
import sys
from dataclasses import replace

import pytest

from assets import find_pipeline
from platform_defs.contract.model import Contract
from platform_defs.engine.ports import AuditView
from resources.postgres import auditor
from resources.postgres.auditor import GreatExpectationsAuditor

NOT_IMPORTED = """
import sys
import platform_defs.engine.batch, platform_defs.engine.explain, platform_defs.operations.open_run
from resources.postgres.auditor import GreatExpectationsAuditor
from platform_defs.engine.ports import AuditView
assert GreatExpectationsAuditor("postgresql://nowhere").judge((), AuditView("s", "v")) == []
assert "great_expectations" not in sys.modules
"""


def without_rules(contract: Contract) -> Contract:
    return replace(contract, tables=tuple(replace(table, batch_rules=()) for table in contract.tables))


@pytest.mark.long
def test_neither_the_engine_nor_an_audit_without_rules_imports_great_expectations() -> None:
    subprocess.run([sys.executable, "-c", NOT_IMPORTED], check=True, timeout=60)


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
    assert GreatExpectationsAuditor("postgresql://nowhere").judge((), AuditView("s", "v")) == []

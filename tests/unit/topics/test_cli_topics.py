"""`tidegate topics` with wrong arguments."""

from typer.testing import CliRunner

from platform_defs.cli.main import app


def test_a_topic_in_place_of_a_plans_file_is_answered_with_the_option() -> None:
    done = CliRunner().invoke(app, ["topics", "apply", "iot.devices"])
    assert done.exit_code == 2
    assert "--topic iot.devices" in done.output

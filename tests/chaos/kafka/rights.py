"""Kafka rights and passwords that are revoked while a pipeline runs."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from platform_defs.errors import AccessDenied
from platform_defs.errors.error_policy import TRIES
from tests.chaos.postgres.verdicts import failures
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.secured_kafka import ADMIN, secured_kafka
from tests.support.world import transfers

MESSAGES = 16


@scenario(FaultClass.WAY_TO_KAFKA, shares="secured")
def right_to_read_taken_away(chaos: Chaos) -> Verdict:
    """More runs are refused than a batch may fail; the pipeline neither halts nor blames a message, and goes on once
    the right is granted again.
    """
    with TemporaryDirectory() as folder, secured_kafka(Path(folder)) as kafka:
        world, admin = kafka.world(chaos.world), kafka.world(chaos.world, ADMIN)
        pipeline = admin.new_pipeline()
        topic = pipeline.contract.topic
        kafka.grant(f"--operation Read --operation Describe --operation DescribeConfigs --topic {topic}")
        admin.send(pipeline, transfers(MESSAGES))
        world.drain(pipeline)
        admin.send(pipeline, transfers(MESSAGES, start=MESSAGES))
        kafka.revoke(f"--operation Read --topic {topic}")
        for _ in range(TRIES + 1):
            with pytest.raises(AccessDenied, match=f"--operation Read .*--topic {topic}"):
                world.drain(pipeline)
        assert failures(world, pipeline) == (TRIES + 1, 0)
        assert world.dead_letters(pipeline) == []
        kafka.grant(f"--operation Read --topic {topic}")
        return replace(chaos, world=world).judge(pipeline, TRIES + 1, "refused, then read")

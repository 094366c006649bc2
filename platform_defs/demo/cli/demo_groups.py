"""`tidegate demo groups`: who reads which partition while consumers join and leave."""

from collections.abc import Mapping
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.cli.signals import exiting_at_signals


def groups(output: OutputOption = Output.human) -> None:
    """Show how Kafka shares partitions among consumers that join and leave.

    The demo creates the topic tidegate.demo.orders with three partitions, and
    sends it a trickle of messages. Four consumers join a group one after the
    other: each of the first three reads one partition, and the fourth is idle.
    One leaves, and another takes over its partition. A second group receives
    all messages again: within a group the topic is a queue, between groups it
    is publish and subscribe. The topic and the groups are deleted at the end,
    also after Ctrl-C.

    The demo takes about 20 seconds, and starts the embedded stack if needed.
    The exit code is 1 if something could not be deleted.

    \b
    JSON:
      topic, partitions
      sent        messages
      rebalances  group, event (a sentence), consumers: consumer, partitions,
                  received (messages since they were assigned), idle
      groups      group, received (distinct messages), twice (how many of
                  these were received again)
      left        what could not be deleted, and why, as sentences
      seconds     total duration
    """
    from platform_defs.demo.groups import GroupsDemo
    from platform_defs.settings.settings import settings
    from platform_defs.stack import stack
    from platform_defs.stack.endpoints import kafka_alone

    def rebalanced(step: Mapping[str, Any]) -> None:
        if output is Output.human:
            _print_step(step)

    with exiting_at_signals(), progress() as show:
        if settings().embeds_kafka:
            stack.up(show)
        report = GroupsDemo(options=kafka_alone(), show=show).run(rebalanced)
    print_answer(report, lambda: _print(report), output)
    if report["left"]:
        raise typer.Exit(1)


def _print_step(step: Mapping[str, Any]) -> None:
    rows = [
        (one["consumer"], "none (idle)" if one["idle"] else ", ".join(map(str, one["partitions"])), one["received"])
        for one in step["consumers"]
    ]
    print_line(f"{step['event']} (group {step['group']})")
    print_table(("consumer", "partitions", "messages since then"), rows)
    print_line("")


def _print(report: Mapping[str, Any]) -> None:
    rows = [(one["group"], report["sent"], one["received"], one["twice"]) for one in report["groups"]]
    print_table(("group", "messages sent", "received", "received twice"), rows)
    print_line("")
    print_line(
        "Each message goes to one consumer in every group: a queue within a group, publish and subscribe across groups."
    )

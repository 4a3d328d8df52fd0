"""Try a context: which knowledge bases apply to a conversation, and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.answers import resolve
from agents.contexts import read_context
from agents.drafting import find_agent
from agents.management.versions import VersionCommand
from agents.versions import DRAFT, choose_version, runnable
from registry.access import Access
from registry.actors import Actor
from registry.errors import RegistryError
from registry.strict_json import loads
from retrieval.traces import flush_traces


class Command(VersionCommand):
    help = (
        "Decide the bindings of a version or the draft for a context, as resolve does at the "
        "start of a conversation, and say why. Leaves no trace unless asked."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent", metavar="SLUG", help="The agent.")
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--version", type=int, metavar="N", help="This published version.")
        which.add_argument("--alias", metavar="NAME", help="The version that this alias points to.")
        which.add_argument("--draft", action="store_true", help="The draft as it is now.")
        parser.add_argument(
            "--context",
            required=True,
            metavar="FILE",
            help="A JSON object that describes the conversation; - reads standard input.",
        )
        parser.add_argument("--trace", action="store_true", help="Leave a trace.")
        parser.add_argument("--json", action="store_true", help="Print the whole answer as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        access = Access(actor=Actor(kind="command", label="resolve"), scope="admin")
        which = {"version": DRAFT if options["draft"] else options["version"]}
        try:
            agent = find_agent(options["agent"])
            version = choose_version(agent, {**which, "alias": options["alias"]}, access)
            answer = resolve(
                version=runnable(agent, version),
                context=read_context(
                    {"context": loads(_read(options["context"]), field="context")}
                ),
                access=access,
                trace=options["trace"],
            )
        except RegistryError as error:
            raise CommandError(error.detail) from error
        flush_traces()
        if options["json"]:
            self.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2))
        else:
            for line in _lines(answer):
                self.stdout.write(line)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error


def _lines(answer: dict[str, Any]) -> list[str]:
    which = answer["version"] if answer["version"] == DRAFT else f"version {answer['version']}"
    problems = [problem["message"] for problem in answer["contextProblems"]]
    lines = [
        f"{answer['agent']}, {which}",
        "",
        *(f"The context is not as declared: {problem}." for problem in problems),
    ]
    for binding in answer["bindings"]:
        mark = "applies " if binding["applies"] else "does not"
        lines.append(
            f"{mark}  {binding['label']} → {binding['knowledgeBase']['name']}: {binding['reason']}"
        )
        lines.append(f"          {binding['expression'] or 'always'}")
        if binding["detail"]:
            lines.append(f"          {binding['detail']}")
        if len(binding["parts"]) > 1:
            lines += [
                f"          {part['expression']}: {part['reason']}" for part in binding["parts"]
            ]
    if not answer["bindings"]:
        lines.append("There are no bindings.")
    names = ", ".join(base["name"] for base in answer["knowledgeBases"])
    lines += ["", f"Attached: {names or 'none, which is a normal answer'}"]
    if answer["traceId"]:
        lines.append(f"Trace {answer['traceId']}")
    return lines

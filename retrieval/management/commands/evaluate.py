"""Score snapshots of a knowledge base by its evaluation set, on the command line."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from registry.actors import Actor
from registry.errors import RegistryError
from retrieval.evaluation import start_evaluation
from retrieval.evaluation_imports import import_questions
from retrieval.evaluation_results import comparisons, render_evaluation
from retrieval.knowledge_bases import find
from retrieval.measures import NAMES
from retrieval.models import Evaluation, KnowledgeBase
from retrieval.rankings import RANKINGS

_SHOWN = 10
_QUERY_WIDTH = 70
ACTOR = Actor(kind="command", label="evaluate")


class Command(BaseCommand):
    help = (
        "Score snapshots of a knowledge base by its evaluation set, side by side, with the "
        "questions that gained and lost against the first. With --import, take questions from a "
        ".jsonl or .csv file first. Exit code 1 where the evaluation failed or --fail-under is "
        "not reached by the last snapshot."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("knowledge_base", help="Its name or id.")
        parser.add_argument(
            "--snapshots",
            type=int,
            nargs="+",
            metavar="N",
            help="Numbers; the current one if left out.",
        )
        parser.add_argument(
            "--rankings", nargs="+", choices=RANKINGS, help="The configured one if left out."
        )
        parser.add_argument("--import", dest="file", type=Path, metavar="FILE")
        parser.add_argument(
            "--replace", action="store_true", help="The set becomes the file's questions alone."
        )
        parser.add_argument(
            "--import-only", action="store_true", help="Take the questions and score nothing."
        )
        parser.add_argument(
            "--fail-under", type=float, metavar="X", help="The least nDCG@10, 0 to 1."
        )
        parser.add_argument("--json", action="store_true", help="Print the evaluation as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["import_only"] and options["file"] is None:
            raise CommandError("--import-only needs --import FILE.")
        least = options["fail_under"]
        if least is not None and not 0 <= least <= 1:
            raise CommandError(f"--fail-under is {least}; nDCG@10 is a number from 0 to 1.")
        try:
            base = _base(options["knowledge_base"])
            if options["file"] is not None:
                self._import(base, options["file"], replace_all=options["replace"])
            if options["import_only"]:
                return
            evaluation = start_evaluation(
                actor=ACTOR,
                base=base,
                snapshots=options["snapshots"],
                rankings=options["rankings"],
                at_once=float("inf"),
            )
        except RegistryError as error:
            raise CommandError(_lines(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(render_evaluation(evaluation), ensure_ascii=False))
        else:
            self._show(evaluation)
        if evaluation.state != "done":
            raise CommandError(evaluation.detail or "Another process took the evaluation over.")
        reached = render_evaluation(evaluation)["scores"][-1]["measures"]["nDCG@10"]
        if least is not None and (reached is None or reached < least):
            self.stderr.write(f"nDCG@10 is {reached}, under {least}")
            sys.exit(1)

    def _import(self, base: KnowledgeBase, path: Path, *, replace_all: bool) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
        written = import_questions(
            actor=ACTOR, base=base, name=path.name, content=content, replace_all=replace_all
        )
        self.stderr.write(
            f"{path.name}: {written.created} questions added, {written.updated} changed, "
            f"{written.unchanged} as they were, {written.deleted} deleted"
        )

    def _show(self, evaluation: Evaluation) -> None:
        shown = render_evaluation(evaluation)
        self.stdout.write(f"{'snapshot':<10}{'ranking':<11}" + "".join(f"{n:>11}" for n in NAMES))
        for score in shown["scores"]:
            values = score["measures"] or dict.fromkeys(NAMES)
            cells = "".join(
                f"{'–' if values[name] is None else format(values[name], '.4f'):>11}"
                for name in NAMES
            )
            number = f"#{score['snapshot']['number']}"
            self.stdout.write(f"{number:<10}{score['ranking']:<11}{cells}")
            if score["missingDocuments"]:
                self.stdout.write(f"  {score['missingDocuments']} documents are not in it")
            without = score["withoutAnswer"]
            if without and without["questions"]:
                self.stdout.write(
                    f"  {without['answered']} of {without['questions']} questions that nothing "
                    "answers got passages"
                )
        for one in comparisons(evaluation):
            self._compare(one)

    def _compare(self, one: dict[str, Any]) -> None:
        self.stdout.write(
            f"\n#{one['from']['snapshot']} {one['from']['ranking']} → "
            f"#{one['to']['snapshot']} {one['to']['ranking']}: {one['gains']['count']} gained, "
            f"{one['losses']['count']} lost, {one['unchanged']} as before; "
            f"by chance alone with probability {one['chance']:.3f}"
        )
        for side in ("losses", "gains"):
            for change in one[side]["questions"][:_SHOWN]:
                query = change["query"].replace("\n", " ")[:_QUERY_WIDTH]
                self.stdout.write(f"  {change['difference']:+.3f}  {query}")


def _base(text: str) -> KnowledgeBase:
    named = KnowledgeBase.objects.filter(name=text).first()
    if named is not None:
        return find(named.pk)
    try:
        return find(uuid.UUID(text))
    except ValueError:
        names = ", ".join(KnowledgeBase.objects.order_by("name").values_list("name", flat=True))
        raise CommandError(f"There is no knowledge base {text!r}; there are: {names}.") from None


def _lines(error: RegistryError) -> str:
    """Return the sentence and, where several fields are wrong, each of them."""
    if not error.errors:
        return error.detail
    return "\n".join(
        f"{one.field}: {one.message} ({one.allowed})"
        if one.allowed
        else f"{one.field}: {one.message}"
        for one in error.errors
    )

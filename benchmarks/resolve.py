"""What resolve costs beside a view that does nothing, and what an expression costs beside eval.

Everything is measured in one run on one server process, the things compared one after the other
in every round; what is printed are ratios of medians, with the absolute figures of both sides.

    python benchmarks/resolve.py                          all parts; some minutes on two cores
    python benchmarks/resolve.py --rounds 300 --only http expressions       a quick look
    python benchmarks/resolve.py --only scale --agents 100
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from _installation import installation
from _serving import Connection, web_server

PARTS = ("http", "expressions", "hostile", "scale")
BINDINGS = 20
SMALL = "registry_small"

VARIABLES: list[dict[str, Any]] = [
    {"name": "region", "type": "string", "values": ["EU", "UK", "US", "CH"], "required": True},
    {"name": "language", "type": "string"},
    {"name": "channel", "type": "string", "values": ["chat", "mail", "phone"]},
    {"name": "customer.tier", "type": "string", "values": ["free", "silver", "gold"]},
    {"name": "customer.age", "type": "number"},
    {"name": "customer.since", "type": "string"},
    {"name": "customer.vip", "type": "boolean"},
    {"name": "app", "type": "string"},
    {"name": "tags", "type": "list"},
]
EXPRESSIONS = [
    'region == "EU"',
    'region in ["EU", "UK", "CH"]',
    'region == "US" and customer.tier == "gold"',
    'customer.tier in ["gold", "silver"] and not region == "CH"',
    "18 <= customer.age < 65",
    "customer.vip",
    'customer.vip and channel != "mail"',
    '"new" in tags',
    'lower(language) == "de"',
    'startswith(language, "en")',
    'version(app) >= version("1.9")',
    'date(customer.since) < date("2026-01-31")',
    'has("customer.tier") and channel == "chat"',
    'region == "UK" or region == "EU" and customer.age > 30',
    'not (channel == "phone" or customer.tier == "free")',
    'contains(tags, "returns") or contains(tags, "refund")',
    'region != "US"',
    "len(tags) > 1",
    'channel in ["chat", "mail"] and customer.age >= 18',
]


def context(number: int) -> dict[str, Any]:
    """Return a context that differs from those of all other numbers."""
    return {
        "region": ("EU", "UK", "US", "CH")[number % 4],
        "language": ("de", "en-GB", "fr")[number % 3],
        "channel": ("chat", "mail", "phone")[number % 3],
        "customer": {
            "id": number,
            "tier": ("free", "silver", "gold")[number % 3],
            "age": 16 + number % 60,
            "since": f"20{10 + number % 16}-{1 + number % 12:02}-{1 + number % 28:02}",
            "vip": number % 5 == 0,
        },
        "app": f"1.{number % 200}.{number % 7}",
        "tags": ["new", "returns"] if number % 2 else ["loyal"],
    }


def context_of_new_values(number: int) -> dict[str, Any]:
    """Return a context in which every value that may be new is: nothing can be remembered."""
    given = context(number)
    customer = {**given["customer"], "age": number + 0.5, "since": f"{1000 + number % 9000}-05-01"}
    return {
        **given,
        "language": f"de-{number}",
        "customer": customer,
        "app": f"{number}.0.0",
        "tags": [f"tag {number}"],
    }


def main() -> None:
    options = _options()
    with installation():
        print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
        key, etags = _publish()
        print(f"one version with {BINDINGS} bindings, an answer of {etags} bytes")
        for part in options.only or PARTS:
            globals()[f"measure_{part}"](options, key)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure resolve.")
    parser.add_argument("--rounds", type=int, default=2000, help="requests of each kind")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn of throughput")
    parser.add_argument("--agents", type=int, default=1000, help="in the large installation")
    parser.add_argument("--versions", type=int, default=20, help="of each of them")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    return parser.parse_args()


def _publish() -> tuple[str, int]:
    """Publish the version that is measured; return an editor's key and the size of an answer."""
    from agents.answers import resolve_as_json
    from agents.versions import runnable
    from registry.access import create_api_key
    from tests import builders

    bases = [builders.base_with(f"Base {number}") for number in range(5)]
    agent = builders.make_agent("support")
    bindings: list[dict[str, Any]] = [
        {
            "knowledgeBase": str(bases[position % len(bases)].pk),
            "expression": expression,
            "label": f"Rule {position}",
            "instruction": "Use it for what is said there, and cite the page.",
        }
        for position, expression in enumerate([*EXPRESSIONS, None])
    ]
    builders.edit(
        agent,
        accept_warnings=True,
        prompt="You answer customers. Cite your sources. " * 20,
        model="some-model",
        parameters={"temperature": 0},
        contextVariables=VARIABLES,
        bindings=bindings,
        tools=[builders.rag_tool(base, f"search_{n}") for n, base in enumerate(bases)],
    )
    version = builders.publish(agent)
    answer = resolve_as_json(
        version=runnable(agent, version),
        context=context(1),
        access=builders.ACCESS,
        known=None,
        trace=False,
        conversation_id="",
        form=None,
    )
    key = create_api_key(actor=builders.ACTOR, name="editor", scope="editor")
    return key, len(answer)


# -- the parts -------------------------------------------------------------------------------


def measure_http(options: argparse.Namespace, key: str) -> None:
    """Resolve against the trivial view on the same server process."""
    with _server() as port:
        client = Client(port, key)
        fresh = itertools.count(1)
        bodies = {
            "never seen before": lambda: _body(next(fresh), trace=False),
            "of new values only": lambda: _body(
                next(fresh), trace=False, made_by=context_of_new_values
            ),
            "never seen before, traced": lambda: _body(next(fresh)),
            "repeated": lambda: _body(-(next(fresh) % 50) - 1, trace=False),
            "repeated, traced": lambda: _body(-(next(fresh) % 50) - 1),
        }
        client.put_reference(client.post("resolve", _body(1, trace=False)))
        aims = {"never seen before": "≤ 1.5", "repeated": "≤ 1.15"}
        print("\nmedian of one request after the other, through HTTP")
        for name, body in bodies.items():
            own, trivial = _in_turn(client, body, options.rounds)
            _say(f"context {name}", own, trivial, 1e6, "µs", aims.get(name, ""))
        print("requests per second, 4 connections")
        for name, body in bodies.items():
            rates = _throughput(port, key, body, options.seconds)
            ratio = rates["resolve"] / rates["reference"]
            aim = "  (aim ≥ 0.8)" if name == "never seen before" else ""
            print(
                f"  context {name:26} {rates['resolve']:6.0f}/s, trivial view "
                f"{rates['reference']:6.0f}/s, ratio {ratio:.2f}{aim}"
            )
    _load()


def measure_expressions(options: argparse.Namespace, key: str) -> None:
    """One evaluation of a parsed expression against simpleeval's eval of its text."""
    from simpleeval import EvalWithCompoundTypes  # type: ignore[import-untyped]  # has no types

    from agents.expressions import parse_expression, parse_variables

    variables = parse_variables(VARIABLES)
    functions = {
        "lower": str.lower,
        "startswith": str.startswith,
        "contains": lambda whole, part: part in whole,
        "len": len,
        "has": lambda name: True,
        "version": lambda text: tuple(map(int, text.split("."))),
        "date": lambda text: text[:10],
    }
    contexts = [context(number) for number in range(50)]
    print("\none evaluation, median over the expressions")
    for name, declared in (("undeclared", ()), ("declared", variables)):
        own, plain = [], []
        for text in EXPRESSIONS:
            # Without declarations a bare name is no condition.
            source = text if declared else text.replace("customer.vip", "customer.vip == True")
            expression = parse_expression(source, declared)
            evaluator = EvalWithCompoundTypes(functions=functions)

            def by_eval(context: Mapping[str, Any], text: str = source) -> None:
                evaluator.names = context  # noqa: B023
                evaluator.eval(text)  # noqa: B023

            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(20):
                times[0].append(_each(expression.evaluate, contexts))
                times[1].append(_each(by_eval, contexts))
            own.append(statistics.median(times[0]))
            plain.append(statistics.median(times[1]))
        _say(name, own, plain, 1e6, "µs", "≤ 0.3", other="simpleeval's eval")


def measure_hostile(options: argparse.Namespace, key: str) -> None:
    """How many of the hostile expressions are refused, and how long that takes at most."""
    import ast
    import warnings

    from agents.expressions import ExpressionError, parse_expression
    from agents.expressions.evaluation import decide
    from tests.agents.hostile_expressions import HOSTILE

    warnings.simplefilter("ignore")
    refused = reached = stopped = 0
    reading, evaluating = 0.0, 0.0
    for text in HOSTILE:
        started = time.process_time()
        try:
            parse_expression(text)
        except ExpressionError:
            refused += 1
        reading = max(reading, time.process_time() - started)
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        reached += 1
        started = time.process_time()
        stopped += not decide(tree, (), context(1)).applies
        evaluating = max(evaluating, time.process_time() - started)
    print(
        f"\nhostile expressions: {refused} of {len(HOSTILE)} refused when read, "
        f"{reading * 1e3:.1f} ms at most; handed to the evaluator itself {stopped} of {reached} "
        f"stopped, {evaluating * 1e3:.2f} ms at most"
    )


def measure_scale(options: argparse.Namespace, key: str) -> None:
    """An installation with one agent against one with many, on a server process each."""
    from django.db import connection

    connection.close()
    _copy_database()
    started = time.monotonic()
    count = _grow(options.agents, options.versions)
    print(f"\n{count} more versions made in {time.monotonic() - started:.0f} s")
    fresh = itertools.count(1)
    with _server(SMALL) as small_port, _server() as large_port:
        small, large = Client(small_port, key), Client(large_port, key)

        def body() -> bytes:
            return _body(next(fresh), trace=False)

        cold = [
            (
                small.timed("resolve", body()),
                large.timed("resolve", body(), slug=f"copy-{options.agents}"),
            )
        ]
        print(
            f"  first request of all  {cold[0][1] * 1e3:.1f} ms, one agent {cold[0][0] * 1e3:.1f} ms"
        )
        own, one = [], []
        for _ in range(options.rounds):
            sent = body()
            own.append(large.timed("resolve", sent))
            one.append(small.timed("resolve", sent))
        _say("one version", own, one, 1e6, "µs", "≤ 1.1", other="with one agent")
        slugs = [f"copy-{number}" for number in range(1, 1 + min(500, options.agents))]
        first = [large.timed("resolve", body(), slug=slug) for slug in slugs]
        own, one = [], []
        for slug in itertools.islice(itertools.cycle(slugs), options.rounds):
            sent = body()
            own.append(large.timed("resolve", sent, slug=slug))
            one.append(small.timed("resolve", sent))
        _say(f"{len(slugs)} versions in turn", own, one, 1e6, "µs", "≤ 1.1", other="with one agent")
        print(f"  first request for a version  {statistics.median(first) * 1e3:.1f} ms")
    _load()


# -- measuring -------------------------------------------------------------------------------


def _in_turn(
    client: Client, body: Callable[[], bytes], rounds: int
) -> tuple[list[float], list[float]]:
    own: list[float] = []
    trivial: list[float] = []
    for number in range(rounds + 50):
        sent = body()
        pair = [("resolve", own), ("reference", trivial)]
        for action, times in pair if number % 2 else reversed(pair):
            took = client.timed(action, sent)
            if number >= 50:
                times.append(took)
    return own, trivial


def _throughput(port: int, key: str, body: Callable[[], bytes], seconds: float) -> dict[str, float]:
    done: dict[str, list[float]] = {"resolve": [], "reference": []}
    for _ in range(3):
        for action, rates in done.items():
            counts = [0] * 4
            ends = time.monotonic() + seconds

            def work(at: int, action: str = action, counts: list[int] = counts) -> None:
                client = Client(port, key)
                while time.monotonic() < ends:  # noqa: B023
                    client.post(action, body())
                    counts[at] += 1

            threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rates.append(sum(counts) / seconds)
    return {action: statistics.median(rates) for action, rates in done.items()}


def _each(call: Callable[[Any], object], values: Sequence[Any]) -> float:
    started = time.perf_counter()
    for value in values:
        call(value)
    return (time.perf_counter() - started) / len(values)


def _say(
    name: str,
    own: Sequence[float],
    other_times: Sequence[float],
    factor: float,
    unit: str,
    aim: str,
    *,
    other: str = "trivial view",
) -> None:
    mine, theirs = statistics.median(own), statistics.median(other_times)
    shown = f"  (aim {aim})" if aim else ""
    print(
        f"  {name:34} {mine * factor:7.1f} {unit}, {other} {theirs * factor:7.1f} {unit}, "
        f"ratio {mine / theirs:.2f}{shown}"
    )


def _load() -> None:
    print(f"load {os.getloadavg()[0]:.1f}")


def _body(
    number: int,
    *,
    trace: bool = True,
    made_by: Callable[[int], dict[str, Any]] = context,
) -> bytes:
    body: dict[str, Any] = {"version": 1, "context": made_by(number)}
    if not trace:
        body["trace"] = False
    return json.dumps(body).encode()


class Client(Connection):
    """One connection that stays open, by which agents are resolved."""

    def post(self, action: str, body: bytes, *, slug: str = "support") -> bytes:
        return self.send("POST", f"/api/v1/agents/{slug}/{action}", body)

    def put_reference(self, answer: bytes) -> None:
        self.send("PUT", "/api/v1/agents/support/reference", answer)

    def timed(self, action: str, body: bytes, *, slug: str = "support") -> float:
        started = time.perf_counter()
        self.post(action, body, slug=slug)
        return time.perf_counter() - started


@contextmanager
def _server(database: str = "") -> Iterator[int]:
    """Serve, with the trivial view beside the registry's; yield the port."""
    with web_server("benchmarks._resolve_settings", database=database) as (port, _):
        yield port


# -- many agents -----------------------------------------------------------------------------


def _copy_database() -> None:
    """Keep the installation with one agent under another name."""
    import psycopg
    from django.conf import settings

    dsn = settings.INSTANCE.postgres_dsn("owner", "postgres")
    name = settings.DATABASES["default"]["NAME"]
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(f'CREATE DATABASE {SMALL} TEMPLATE "{name}"')


def _grow(agents: int, versions: int) -> int:
    """Copy the published version as the ``versions`` versions of ``agents`` more agents, by rows."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO agents_agent (id, slug, name, created_at) "
            "SELECT gen_random_uuid(), 'copy-' || n, 'Copy ' || n, now() "
            "FROM generate_series(1, %s) n",
            [agents],
        )
        for number in range(1, versions + 2):
            for statement in _next_version(number, is_last=number > versions):
                cursor.execute(statement)
        cursor.execute("ANALYZE")
    return agents * versions


def _next_version(number: int, *, is_last: bool) -> Iterator[str]:
    """Yield what gives every copied agent its next draft, and publishes that."""
    from agents.models import AgentVersion, KnowledgeBinding, Tool
    from retrieval.models import SnapshotPin

    template = "(SELECT v.id FROM agents_agentversion v JOIN agents_agent a ON a.id = v.agent_id "
    template += "WHERE a.slug = 'support' AND v.number = 1)"
    drafts = "(SELECT v.id FROM agents_agentversion v JOIN agents_agent a ON a.id = v.agent_id "
    drafts += "WHERE a.slug LIKE 'copy-%' AND v.state = 'draft')"
    yield _copied(
        AgentVersion,
        {
            "id": "gen_random_uuid()",
            "agent_id": "a.id",
            "state": "'draft'",
            "number": "NULL",
            "published_at": "NULL",
            "published_by": "''",
            "manifest": "''",
            "digest": "''",
        },
        f"agents_agentversion s, agents_agent a WHERE s.id = {template} AND a.slug LIKE 'copy-%'",
    )
    for model in (KnowledgeBinding, Tool):
        yield _copied(
            model,
            {"pk": "DEFAULT", "version_id": "d.id"},
            f"{model._meta.db_table} s, {drafts} d WHERE s.version_id = {template}",
        )
    if is_last:
        return
    yield _copied(
        SnapshotPin,
        {"id": "DEFAULT", "holder_id": "d.id::text"},
        f"retrieval_snapshotpin s, {drafts} d WHERE s.holder_id = {template}::text",
    )
    yield (
        "UPDATE agents_agentversion v SET state = 'published', "
        f"number = {number}, published_at = now(), published_by = 'benchmark', "
        "manifest = s.manifest, digest = s.digest "
        f"FROM agents_agentversion s WHERE s.id = {template} AND v.id IN {drafts}"
    )


def _copied(model: Any, changes: Mapping[str, str], source: str) -> str:
    """Return the statement that copies rows of ``s`` with some columns changed."""
    columns = [
        field.column
        for field in model._meta.concrete_fields
        if changes.get(field.column) != "DEFAULT"
    ]
    values = [changes.get(column, f's."{column}"') for column in columns]
    names = ", ".join(f'"{column}"' for column in columns)
    return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {', '.join(values)} FROM {source}"


if __name__ == "__main__":
    main()

import signal

import psutil
import redis

from registry.embedded.processes import has_ended, wait_until
from registry.embedded.valkey import start_valkey, valkey_answers

OWNER = """
import sys, pathlib, time
from registry.embedded.instance import Instance
from registry.embedded.valkey import start_valkey
print(start_valkey(Instance(pathlib.Path(sys.argv[1]))).pid, flush=True)
time.sleep(600)
"""


def test_start_valkey__new_folder__answers_on_its_socket_alone(instance):
    server = start_valkey(instance)
    try:
        with redis.Redis.from_url(instance.redis_url) as client:
            client.set("key", "value")
            value = client.get("key")
            port = client.config_get("port")
        listening = psutil.Process(server.pid).net_connections(kind="inet")
    finally:
        server.stop()

    assert value == b"value"
    assert port == {"port": "0"}
    assert listening == []
    assert not valkey_answers(instance)


def test_start_valkey__stale_socket_file__starts(instance):
    start_valkey(instance).stop()
    instance.valkey_socket.touch()

    server = start_valkey(instance)
    try:
        answered = valkey_answers(instance)
    finally:
        server.stop()

    assert answered


def test_start_valkey__server_of_an_earlier_owner_still_runs__takes_over(instance):
    first = start_valkey(instance)

    second = start_valkey(instance)
    try:
        answered = valkey_answers(instance)
    finally:
        second.stop()

    assert answered
    # It hangs up before it has ended
    assert wait_until(lambda: first.poll() is not None, seconds=120)


def test_start_valkey__owner_killed__stops_with_it(instance, start_program):
    owner = start_program(OWNER, instance.data_dir)
    server = psutil.Process(int(owner.stdout.readline()))

    owner.send_signal(signal.SIGKILL)

    assert wait_until(lambda: has_ended(server), seconds=120)

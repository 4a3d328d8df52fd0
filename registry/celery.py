"""The Celery application: ``celery -A registry.celery worker``."""

import os
import signal

from celery import Celery
from celery.signals import worker_init, worker_process_init
from kombu.transport.virtual import Channel

from registry import cores
from registry.embedded.processes import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "registry.settings")

# The other half of the setting ack_emulation: nothing is given back to a broker that is gone.
Channel.do_restore = False

app = Celery("registry")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
# Threads other than the importing one find it too.
app.set_default()


@worker_process_init.connect(weak=False)
def end_with_the_worker(**_: object) -> None:
    """Let no pool process outlive a killed worker: it would go on with work that is another's."""
    die_with_parent(signal.SIGKILL, os.getppid())


@worker_init.connect(weak=False)
@worker_process_init.connect(weak=False)
def compute_on_one_core(**_: object) -> None:
    """Two processes of one thread embed more than one process of two."""
    cores.take_one()

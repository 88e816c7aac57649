"""What a campaign plays on: the stack, with faults within reach, and databases that take notes."""

import json
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack
from devstack.processes import ROOT, StackError
from devstack.stack import QUEUES, Stack
from models.queues import PROCESSING_QUEUES
from soak.clock import Clock
from soak.proxy import Proxy

JOBS = ("customers-to-erp", "orders-to-erp")
CUSTOMERS, ORDERS = JOBS

#: The queue of both jobs.
QUEUE = "sbqnormal"

#: Handlers last longer than a lock, and shorter than the host lets them.
LOCK_SECONDS, HANDLER_SECONDS, TIME_OUT_SECONDS = 5, 12, 15

#: The broker's clock never comes behind ours, even after jumps back: the SDK would take the locks
#: of our own receivers for lost.
_AHEAD_AT_FIRST = timedelta(minutes=1)

#: Ten attempts take four seconds instead of six minutes.
_BACKOFF_UNIT_MS = 10

#: What an app folder holds.
_APP = (
    *("function_app.py", "durable_functions.py", "servicebus.json"),
    *("composition", "connectors", "delivery", "models", "services"),
)

#: Refused: the target's own rule. Outdated: the target was written by somebody later. Orders of the
#: refused customers find no customer. `expectations.py` says the same again.
_RULES = """
ALTER TABLE business_partner ADD CONSTRAINT refused CHECK (partner_number NOT LIKE '%7');
INSERT INTO business_partner (partner_number, name, city, credit_limit, partner_since, is_active,
                              crm_modified_at)
    SELECT 'D' || to_char(10 * n, 'FM000000'), 'written later', 'Ulm', 0, '2000-01-01', true,
           '2999-01-01'
    FROM generate_series(1, 10) n;
"""

#: All writes of the target.
_WRITES = """
CREATE TABLE written (job text, key text, change timestamptz, before timestamptz);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO written VALUES (TG_ARGV[0], to_jsonb(NEW) ->> TG_ARGV[1], NEW.crm_modified_at,
                                CASE TG_OP WHEN 'UPDATE' THEN OLD.crm_modified_at END);
    RETURN NEW; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON business_partner
    FOR EACH ROW EXECUTE FUNCTION note('customers-to-erp', 'partner_number');
CREATE TRIGGER note AFTER INSERT OR UPDATE ON sales_order
    FOR EACH ROW EXECUTE FUNCTION note('orders-to-erp', 'document_number');
"""

#: Every state that a record ever had at the source, and until when it had it.
_STATES = """
CREATE TABLE changed (job text, key text, change timestamptz, until timestamptz,
                      is_deletion boolean NOT NULL);
CREATE INDEX ON changed (job, key) WHERE until IS NULL;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE record jsonb := to_jsonb(CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END);
BEGIN
    UPDATE changed SET until = clock_timestamp()
        WHERE job = TG_ARGV[0] AND key = record ->> TG_ARGV[1] AND until IS NULL
          AND NOT is_deletion;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO changed VALUES (TG_ARGV[0], record ->> TG_ARGV[1],
            (record ->> TG_ARGV[2])::timestamptz, NULL, TG_ARGV[2] = 'deleted_at');
    END IF;
    RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON customer
    FOR EACH ROW EXECUTE FUNCTION note('customers-to-erp', 'customer_number', 'modified_at');
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON customer_order
    FOR EACH ROW EXECUTE FUNCTION note('orders-to-erp', 'order_number', 'modified_at');
CREATE TRIGGER note AFTER INSERT ON deleted_order
    FOR EACH ROW EXECUTE FUNCTION note('orders-to-erp', 'order_number', 'deleted_at');
"""

#: A job, a record and the time of its change.
Change = tuple[str, str, str]


@dataclass
class Scene:
    """The stack and what may happen to it."""

    stack: Stack
    databases: Databases
    proxy: Proxy
    app_clock: Clock
    broker_clock: Clock
    #: What the broker or a person dead-lettered, without the app's knowledge.
    buried: set[Change] = field(default_factory=set)

    @contextmanager
    def database(self, name: str) -> Iterator[psycopg.Connection]:
        """Connect to a database as nobody disturbs it."""
        with psycopg.connect(self.stack.postgres.dsn(name), autocommit=True) as connection:
            yield connection


@contextmanager
def open_scene(folder: Path, *, rules: bool = True) -> Iterator[Scene]:
    """Start everything but the Functions host; whatever fails is a StackError, so logs stay.

    Without `rules` the target takes everything.
    """
    app_clock, broker_clock = Clock(folder, "app"), Clock(folder, "broker")
    for clock in (app_clock, broker_clock):
        if clock.reason is None:
            clock.set(_AHEAD_AT_FIRST)
    with ExitStack() as stage:
        stack, databases = stage.enter_context(
            demo_stack(
                folder,
                app=_app_with_time_out(folder),
                queues=_queues_with_short_locks(folder),
                broker_environment=broker_clock.environment,
            )
        )
        port = urlsplit(stack.postgres.dsn("erp")).port
        proxy = stage.enter_context(Proxy(port or 0))
        url = stack.postgres.sqlalchemy_url("erp").replace(f":{port}/", f":{proxy.port}/")
        stack.settings = {
            **stack.settings,
            **app_clock.environment,
            "ERP_DATABASE_URL": url,
            "SYNC_BACKOFF_UNIT_MS": str(_BACKOFF_UNIT_MS),
        }
        scene = Scene(stack, databases, proxy, app_clock, broker_clock)
        with scene.database("crm") as crm, scene.database("erp") as erp:
            crm.execute(_STATES)
            erp.execute(_RULES if rules else "")
            erp.execute(_WRITES)
        try:
            yield scene
        except StackError:
            raise
        except Exception as error:
            log = folder / "campaign.log"
            log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
            msg = f"the campaign broke off: {type(error).__name__}: {error}; see {log}"
            raise StackError(msg) from error


def _queues_with_short_locks(folder: Path) -> Path:
    content = json.loads(QUEUES.read_bytes())
    for queue in content["UserConfig"]["Namespaces"][0]["Queues"]:
        if queue["Name"] in PROCESSING_QUEUES.values():
            queue["Properties"]["LockDuration"] = f"PT{LOCK_SECONDS}S"
    path = folder / QUEUES.name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _app_with_time_out(folder: Path) -> Path:
    """Make the app's folder anew, with another `host.json`."""
    app = folder / "app"
    app.mkdir()
    for name in _APP:
        (app / name).symlink_to(ROOT / name)
    settings = json.loads((ROOT / "host.json").read_bytes())
    settings["functionTimeout"] = f"00:00:{TIME_OUT_SECONDS:02}"
    (app / "host.json").write_text(json.dumps(settings), encoding="utf-8")
    return app

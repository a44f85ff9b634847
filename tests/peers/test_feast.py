"""The feast package, unmodified, reads its online features from Falaj and writes them there, by
`online_store: {type: remote}`."""

import http.client
import json
import os
import subprocess
import tempfile
import unittest
import urllib.parse
from datetime import datetime, timedelta, timezone

try:
    import feast
except ImportError as missing:
    print("skipped: third_party/feast_peers.txt is not installed (tools/peers):", missing)
    raise SystemExit(77)

import pandas as pd
from feast import Entity, FeatureService, FeatureStore, FeatureView, Field, FileSource
from feast.errors import FeastObjectNotFoundException
from feast.types import Bool, Float64, Int64, String

PROGRAM = os.environ["FALAJ_BINARY"]
PROJECT = "rides"
NOW = datetime.now(timezone.utc).replace(microsecond=0)


def thing(kind, name, **spec):
    project = {} if kind in ("Project", "Zone") else {"project": PROJECT}
    return {
        "apiVersion": "falaj.dev/v1",
        "kind": kind,
        "metadata": {"name": name, **project},
        "spec": spec,
    }


OURS = [
    thing("Project", PROJECT, zone="local"),
    thing("Entity", "driver", keys=[{"name": "driver_id", "type": "int64"}]),
    thing(
        "Source",
        "driver_stats",
        format="parquet",
        path="drivers.parquet",
        event_time="event_timestamp",
        created_time="created",
    ),
    thing(
        "FeatureView",
        "driver_hourly_stats",
        entity="driver",
        source="driver_stats",
        ttl="2d",
        features=[
            {"name": "conv_rate", "type": "float64"},
            {"name": "trips", "type": "int64"},
            {"name": "city", "type": "string"},
            {"name": "active", "type": "bool"},
        ],
    ),
    thing("FeatureService", "activity", features=[{"driver_hourly_stats": ["city", "trips"]}]),
]


def drivers():
    return pd.DataFrame(
        {
            "driver_id": [1001, 1002, 1003],
            "event_timestamp": [NOW - timedelta(hours=1)] * 2 + [NOW - timedelta(days=30)],
            "created": [NOW] * 3,
            "conv_rate": [0.1, 1 / 3, 0.5],
            "trips": [2**53 + 1, -7, 1],
            "city": ["العين", "Dubai", "Ajman"],
            "active": [True, False, True],
        }
    )


def theirs(folder, url):
    """The same as Feast declares it."""
    with open(os.path.join(folder, "feature_store.yaml"), "w") as config:
        config.write(
            f"project: {PROJECT}\nprovider: local\nregistry: {folder}/registry.db\n"
            f"online_store:\n  type: remote\n  path: {url}/feast/{PROJECT}\n"
            "offline_store:\n  type: file\nentity_key_serialization_version: 3\n"
        )
    store = FeatureStore(repo_path=folder)
    driver = Entity(name="driver", join_keys=["driver_id"])
    view = FeatureView(
        name="driver_hourly_stats",
        entities=[driver],
        ttl=timedelta(days=2),
        schema=[
            Field(name="driver_id", dtype=Int64),
            Field(name="conv_rate", dtype=Float64),
            Field(name="trips", dtype=Int64),
            Field(name="city", dtype=String),
            Field(name="active", dtype=Bool),
        ],
        source=FileSource(
            path=os.path.join(folder, "drivers.parquet"),
            timestamp_field="event_timestamp",
            created_timestamp_column="created",
        ),
    )
    store.apply([driver, view, FeatureService(name="activity", features=[view[["city", "trips"]]])])
    return store


class Feast(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="falaj-feast-")
        cls.addClassCleanup(folder.cleanup)
        cls.process = subprocess.Popen(
            [PROGRAM, "dev", "--data", folder.name + "/data", "--port", "0", "--grpc-port", "0"],
            stdout=subprocess.PIPE,
            stderr=open(folder.name + "/log", "wb"),
        )
        cls.addClassCleanup(cls.stop)
        ready = cls.process.stdout.readline().decode()
        assert ready.startswith("ready "), ready
        cls.url = ready.split()[1]
        drivers().to_parquet(folder.name + "/drivers.parquet")
        cls.good("PUT", "/api/v1/objects", {"objects": OURS})
        with open(folder.name + "/drivers.parquet", "rb") as data:
            path = f"/api/v1/feature-views/driver_hourly_stats:ingest?project={PROJECT}"
            cls.good("POST", path + "&format=parquet", data.read())
        cls.store = theirs(folder.name, cls.url)

    @classmethod
    def stop(cls):
        cls.process.terminate()
        cls.process.wait(timeout=30)
        cls.process.stdout.close()

    @classmethod
    def ask(cls, method, path, body=None):
        where = urllib.parse.urlsplit(cls.url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text

    @classmethod
    def good(cls, method, path, body=None):
        status, text = cls.ask(method, path, body)
        assert status < 300, (path, status, text)
        return text

    def read(self, features, ids, **options):
        rows = [{"driver_id": each} for each in ids]
        return self.store.get_online_features(
            features=features, entity_rows=rows, **options
        ).to_dict()

    def test_values_come_back_as_they_were_in_the_order_asked_for(self):
        wanted = ["trips", "conv_rate", "city", "active"]
        read = self.read([f"driver_hourly_stats:{each}" for each in wanted], [1002, 1001, 9])
        frame = drivers().set_index("driver_id")
        self.assertEqual(read["driver_id"], [1002, 1001, 9])
        for name in wanted:
            expected = [frame.loc[1002, name], frame.loc[1001, name], None]
            self.assertEqual(read[name], expected, name)

    def test_a_feature_service_and_full_names(self):
        service = self.store.get_feature_service("activity")
        read = self.read(service, [1001], full_feature_names=True)
        self.assertEqual(read["driver_hourly_stats__city"], ["العين"])
        self.assertEqual(read["driver_hourly_stats__trips"], [2**53 + 1])

    def test_what_is_older_than_its_ttl_is_not_handed_out(self):
        response = self.store.get_online_features(
            features=["driver_hourly_stats:trips"], entity_rows=[{"driver_id": 1003}]
        )
        self.assertEqual(response.to_dict()["trips"], [None])

    def test_what_does_not_exist_is_feasts_own_error(self):
        for features in (["no_such_view:trips"], ["driver_hourly_stats:no_such_feature"]):
            body = {"features": features, "entities": {"driver_id": [1001]}}
            status, text = self.ask("POST", f"/feast/{PROJECT}/get-online-features", body)
            self.assertEqual(status, 404, text)
            error = feast.errors.FeastError.from_error_detail(json.loads(text))
            self.assertIsInstance(error, (FeastObjectNotFoundException, feast.errors.FeastError))
        status, text = self.ask("POST", f"/feast/{PROJECT}/get-online-features", {"features": 1})
        self.assertEqual(status, 422)
        self.assertIn("detail", json.loads(text))
        body = {"features": ["driver_hourly_stats:trips"], "entities": {"driver_id": ["1001"]}}
        status, text = self.ask("POST", f"/feast/{PROJECT}/get-online-features", body)
        self.assertEqual(status, 422, "a text for a number is never silently not found")

    def test_its_own_write_is_read_back(self):
        row = drivers().head(1).assign(driver_id=2001, trips=5, city="Al Ain")
        self.store.write_to_online_store("driver_hourly_stats", row)
        read = self.read(["driver_hourly_stats:trips", "driver_hourly_stats:city"], [2001])
        self.assertEqual((read["trips"], read["city"]), ([5], ["Al Ain"]))
        late = row.assign(trips=4, event_timestamp=NOW - timedelta(hours=5))
        self.store.write_to_online_store("driver_hourly_stats", late)
        self.assertEqual(self.read(["driver_hourly_stats:trips"], [2001])["trips"], [5])

    def test_push_materialize_and_health(self):
        df = {
            "driver_id": [3001, 3002],
            "event_timestamp": [NOW.isoformat()] * 2,
            "created": NOW.isoformat(),
            "conv_rate": [0.25, None],
            "trips": [1, 2],
            "city": "Sharjah",
            "active": True,
        }
        body = {"push_source_name": "driver_stats", "df": df, "to": "online_and_offline"}
        self.good("POST", f"/push?project={PROJECT}", body)
        read = self.read(
            ["driver_hourly_stats:conv_rate", "driver_hourly_stats:city"], [3002, 3001]
        )
        self.assertEqual(read["conv_rate"], [None, 0.25])
        self.assertEqual(read["city"], ["Sharjah", "Sharjah"])
        base = f"/feast/{PROJECT}"
        self.good("POST", base + "/materialize-incremental", {"end_ts": NOW.isoformat()})
        body = {"start_ts": "2020-01-01", "end_ts": NOW.isoformat()}
        status, text = self.ask("POST", base + "/materialize?async=true", body)
        self.assertEqual((status, json.loads(text)["status"]), (202, "accepted"))
        self.assertEqual(self.ask("GET", "/health")[0], 200)
        status, _ = self.ask(
            "POST", base + "/push", {**body, "push_source_name": "nobody", "df": df}
        )
        self.assertEqual(status, 404)


if __name__ == "__main__":
    unittest.main()

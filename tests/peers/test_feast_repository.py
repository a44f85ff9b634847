"""A repository that the feast package made: translated into declarations and rows, and its
historical features compared with the exact ones."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from datetime import datetime, timedelta, timezone

try:
    import feast
except ImportError as missing:
    print("skipped: third_party/feast_peers.txt is not installed (tools/peers):", missing)
    raise SystemExit(77)

import pandas as pd
from feast import Entity, FeatureService, FeatureStore, FeatureView, Field, FileSource
from feast import PushSource, RequestSource, ValueType
from feast.on_demand_feature_view import on_demand_feature_view
from feast.types import Array, Float32, Float64, Int64, String

PROGRAM = os.environ["FALAJ_BINARY"]
START = datetime(2026, 1, 10, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def write_rows(folder):
    """Ten drivers with a row each six hours; pairs whose keys are the same text when joined."""
    rows = [
        (driver, START + hour * HOUR, START + (hour + 1) * HOUR, driver / 7, hour, "Dubai")
        for driver in range(10)
        for hour in range(0, 96, 6)
    ]
    columns = ["driver_id", "event_timestamp", "created", "rate", "trips", "city"]
    pd.DataFrame(rows, columns=columns).to_parquet(folder + "/drivers.parquet")
    pairs = [(1, 23, START, 1.0), (12, 3, START, 2.0)]
    columns = ["shop_id", "till_id", "at", "val"]
    os.mkdir(folder + "/pairs")
    pd.DataFrame(pairs, columns=columns).to_parquet(folder + "/pairs/part.parquet")


def make_repository(folder):
    write_rows(folder)
    with open(folder + "/feature_store.yaml", "w") as config:
        config.write(
            "project: rides\nprovider: local\nregistry: registry.db\n"
            "online_store:\n  type: sqlite\n  path: online.db\n"
            "offline_store:\n  type: file\nentity_key_serialization_version: 3\n"
        )
    driver = Entity(
        name="driver", join_keys=["driver_id"], value_type=ValueType.INT64, owner="o@example.org"
    )
    shop = Entity(name="shop", join_keys=["shop_id"], value_type=ValueType.INT64)
    till = Entity(name="till", join_keys=["till_id"], value_type=ValueType.INT64)
    file = FileSource(
        name="drivers",
        path="drivers.parquet",
        timestamp_field="event_timestamp",
        created_timestamp_column="created",
    )
    stats = FeatureView(
        name="stats",
        entities=[driver],
        ttl=3 * HOUR,
        schema=[
            Field(name="driver_id", dtype=Int64),
            Field(name="rate", dtype=Float32),
            Field(name="trips", dtype=Int64),
            Field(name="city", dtype=String),
        ],
        source=PushSource(name="driver_push", batch_source=file),
        tags={"team": "rides"},
    )
    sales = FeatureView(
        name="Sales",
        entities=[shop, till],
        schema=[
            Field(name="shop_id", dtype=Int64),
            Field(name="till_id", dtype=Int64),
            Field(name="value", dtype=Float64),
            Field(name="embedding", dtype=Array(Float32)),
        ],
        source=FileSource(path="pairs", timestamp_field="at", field_mapping={"val": "value"}),
    )
    asked = RequestSource(name="asked", schema=[Field(name="bonus", dtype=Float64)])

    @on_demand_feature_view(sources=[stats, asked], schema=[Field(name="sum", dtype=Float64)])
    def computed(inputs: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"sum": inputs["rate"] + inputs["bonus"]})

    services = [
        FeatureService(name="scoring", features=[stats[["rate", "city"]]]),
        FeatureService(name="live", features=[stats, computed]),
    ]
    os.chdir(folder)  # Feast looks for the files of a source from where it runs.
    FeatureStore(repo_path=folder).apply([driver, shop, till, stats, sales, computed, *services])


class FeastRepository(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="falaj-feast-")
        cls.addClassCleanup(made.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        cls.folder = made.name
        cls.repository = made.name + "/repository"
        os.mkdir(cls.repository)
        make_repository(cls.repository)

    def falaj(self, *words, expect=0, server=None):
        environment = {**os.environ, "XDG_CONFIG_HOME": self.folder + "/config"}
        if server:
            environment["FALAJ_SERVER"] = server
        done = subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout

    def test_what_is_imported_and_what_is_not(self):
        report = json.loads(self.falaj("features", "import-feast", self.repository, "-o", "json"))
        names = {(each["kind"], each["metadata"]["name"]) for each in report["objects"]}
        wanted = {
            ("Entity", "driver"),
            ("Entity", "shop_till"),
            ("Source", "driver_push"),
            ("FeatureView", "stats"),
            ("FeatureView", "sales"),
            ("FeatureService", "scoring"),
        }
        self.assertLessEqual(wanted, names)
        self.assertNotIn(("FeatureService", "live"), names)
        left = {each["what"]: each["why"] for each in report["not_imported"]}
        self.assertIn("Python", left["OnDemandFeatureView computed"])
        self.assertIn("computed", left["FeatureService live"])
        self.assertIn("FLOAT_LIST", left["feature embedding of FeatureView Sales"])
        view = next(each for each in report["objects"] if each["metadata"]["name"] == "stats")
        self.assertEqual(view["spec"]["ttl"], "3h")
        self.assertEqual(view["metadata"]["labels"], {"team": "rides"})
        text = self.falaj("features", "import-feast", self.repository)
        self.assertIn("# not imported: OnDemandFeatureView computed", text)

    def test_a_server_gets_the_declarations_and_the_rows(self):
        server = subprocess.Popen(
            [PROGRAM, "dev", "--data", self.folder + "/data", "--port", "0", "--grpc-port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            url = server.stdout.readline().decode().split()[1]
            words = ["features", "import-feast", self.repository, "--apply", "-o", "json"]
            report = json.loads(self.falaj(*words, server=url))
            rows = {each["view"]: each.get("rows_accepted") for each in report["ingested"]}
            self.assertEqual(rows, {"stats": 160, "sales": 2})
            again = json.loads(self.falaj(*words, server=url))
            for each in again["ingested"]:
                self.assertIn("skipped", each["outcome"], "a second import doubles nothing")
            words = ["features", "get", "sales", "shop_id=12", "till_id=3", "--view"]
            self.assertIn("2", self.falaj(*words, server=url))
        finally:
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()

    def verified(self, *words, expect=5):
        base = ["verify", "--against-feast", self.repository, "-o", "json"]
        report = json.loads(self.falaj(*base, *words, expect=expect))
        return report, {each["view"]: each for each in report["views"]}

    def test_what_feast_gets_wrong_is_found(self):
        report, views = self.verified("--python", sys.executable)
        self.assertEqual(report["feast"], feast.__version__)
        found = {each["fault"]: each for each in views["stats"]["faults"]}
        # A second after the end of its time to live no row is left, and Feast's file store then
        # forgets the spine row.
        self.assertGreater(found["dropped_row"]["rows"], 0)
        # Two spine rows of one driver and time become one.
        self.assertGreater(found["collapsed_row"]["rows"], 0)
        self.assertEqual(len(found["dropped_row"]["examples"]), 3)
        self.assertIn("driver_id=", found["dropped_row"]["examples"][0]["key"])
        # What it does answer is right, field_mapping and two keys included.
        self.assertEqual(set(found), {"dropped_row", "collapsed_row"})
        self.assertEqual(views["Sales"]["right_rows"], 7)

    def test_answers_from_elsewhere_are_compared(self):
        spine = self.folder + "/spine.parquet"
        self.falaj(
            *["verify", "--against-feast", self.repository, "--view", "stats"],
            *["--write-spine", spine, "--rows", "101"],
        )
        asked = pd.read_parquet(spine)
        self.assertEqual(len(asked), 101)
        source = pd.read_parquet(self.repository + "/drivers.parquet")
        source = source.sort_values("event_timestamp")
        right = pd.merge_asof(
            asked.sort_values("event_timestamp"),
            source.drop(columns="created").rename(columns={"event_timestamp": "event"}),
            left_on="event_timestamp",
            right_on="event",
            by="driver_id",
            tolerance=pd.Timedelta(hours=3),
        ).drop(columns="event")
        answers = self.folder + "/answers.parquet"
        words = ["--view", "stats", "--spine", spine, "--answers", answers]
        right.to_parquet(answers)
        report, views = self.verified(*words, expect=0)
        self.assertEqual((report["faults"], views["stats"]["right_rows"]), (0, 101))
        wrong = right.copy()
        wrong.loc[wrong["trips"].notna(), "trips"] = 6
        wrong.iloc[1:].to_parquet(answers)
        report, views = self.verified(*words)
        found = {each["fault"]: each["rows"] for each in views["stats"]["faults"]}
        self.assertGreater(report["faults"], 10)
        self.assertEqual(found.get("dropped_row", 0) + found.get("collapsed_row", 0), 1)

    def test_words_that_do_not_fit_are_refused(self):
        base = ["verify", "--against-feast", self.repository]
        self.falaj(*base, expect=2)
        self.falaj(*base, "--answers", "x.parquet", "--view", "stats", expect=2)
        self.falaj(*base, "--python", sys.executable, "--view", "nothing", expect=3)
        self.falaj(*base, "--python", "/no/such/python", expect=3)
        self.falaj("features", "import-feast", self.folder, expect=3)


if __name__ == "__main__":
    unittest.main()

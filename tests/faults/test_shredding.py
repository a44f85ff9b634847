"""What was shredded is gone at once and for good; everything else stays.

An old copy of the online store, put back under the living server, is found at the start, whether
the person's rows have a key of their own or not, and once it is removed the rows are made again
from the segments, without the person.

The strictest reader there is gets past that: an old copy of everything but the keys, which are
today's with the number forged that tells them from old ones. What was destroyed must not be
readable then either. The control is a person whose rows have no key of their own: they come back,
or the test could not see anything.
"""

import contextlib
import os
import shutil
import sqlite3
import unittest

import shop
from program import ProgramTest, wait_until

PERSON = 7


def present(server, customers=shop.CUSTOMERS):
    """The customers whose features the online store has."""
    found = set()
    for answer in shop.predict(server, customers):
        if all(status == "PRESENT" for status in answer["statuses"].values()):
            found.add(answer["entity"]["customer_id"])
    return found


class Shredding(ProgramTest):
    def open_shop(self, subject_keys):
        server = self.server().start()
        server.apply(
            shop.thing(
                "Entity",
                "customer",
                keys=[{"name": "customer_id", "type": "int64"}],
                subject_keys=subject_keys,
            )
        )
        declared = shop.features
        shop.features = lambda: declared()[1:]
        try:
            shop.open_shop(server)
        finally:
            shop.features = declared
        self.assertEqual(present(server), set(range(shop.CUSTOMERS)))
        return server

    def shred(self, server, what):
        return server.good(
            "POST", "/api/v1/keys:shred?project=default", {"object": what, "ground": "other"}
        )

    def erase(self, server):
        server.wait_ready("shop")
        reply = server.good(
            "POST",
            "/api/v1/subjects:erase?project=default",
            {"entity": "customer", "key": {"customer_id": PERSON}, "ground": "erasure-request"},
        )
        self.assertEqual(present(server), set(range(shop.CUSTOMERS)) - {PERSON}, "at once")
        return reply

    def erase_and_put_old_rows_back(self, subject_keys):
        """Who is found after the old online store came back, was refused, and was made anew."""
        server = self.open_shop(subject_keys)
        server.stop()
        online = os.path.join(server.data, "online")
        self.assertTrue(os.path.isdir(online))
        shutil.copytree(online, online + ".old")
        server.start()
        reply = self.erase(server)
        server.stop()
        shutil.rmtree(online)
        os.rename(online + ".old", online)
        self.assertIn("online is an old copy", self.refused(server, "FJ-7051"))
        shutil.rmtree(online)
        server.start()
        server.wait_ready("shop")
        return server, reply, present(server)

    def old_folder_under_the_keys_of_today(self, subject_keys):
        """Who is found in a folder from before the erasure, opened with the keys after it."""
        server = self.open_shop(subject_keys)
        server.stop()
        old = self.server(data=self.copy_of(server.data))
        server.start()
        reply = self.erase(server)
        server.stop()
        keys = os.path.join(old.data, "keys.db")
        with contextlib.closing(sqlite3.connect(keys)) as before:
            numbers = before.execute("SELECT name, number FROM store_generations").fetchall()
        self.assertEqual(len(numbers), 1, numbers)
        for each in (name for name in os.listdir(old.data) if name.startswith("keys.db")):
            os.remove(os.path.join(old.data, each))
        shutil.copy(os.path.join(server.data, "keys.db"), keys)
        self.assertIn("is an old copy", self.refused(old, "FJ-7051"))
        with contextlib.closing(sqlite3.connect(keys)) as forged, forged:
            forged.executemany(
                "UPDATE store_generations SET number = ?2 WHERE name = ?1", numbers
            )
        old.start()
        old.wait_ready("shop")
        return reply, present(old)

    def test_an_erased_person_cannot_be_read_with_the_keys_of_today(self):
        _, found = self.old_folder_under_the_keys_of_today(subject_keys=True)
        self.assertEqual(found, set(range(shop.CUSTOMERS)) - {PERSON})

    def test_without_a_key_of_their_own_the_old_folder_gives_them_back(self):
        reply, found = self.old_folder_under_the_keys_of_today(subject_keys=False)
        self.assertEqual(found, set(range(shop.CUSTOMERS)), "the control sees what is there")
        self.assertNotIn("FeatureView/visits", {each["object"] for each in reply["receipts"]})

    def test_an_erased_person_cannot_be_read_from_an_old_copy(self):
        server, reply, found = self.erase_and_put_old_rows_back(subject_keys=True)
        self.assertEqual(found, set(range(shop.CUSTOMERS)) - {PERSON})
        receipts = {receipt["object"]: receipt for receipt in reply["receipts"]}
        person = receipts["FeatureView/visits"]
        self.assertEqual(person["level"], "subject")
        self.assertEqual(person["opens_refused"], person["opens_tried"])
        marks = receipts["TrainingSet/shop"]["consequences"]["retrain_due"]
        self.assertEqual([(mark["model"], mark["version"]) for mark in marks], [("shop", 1)])
        audited = [entry["detail"] for entry in server.audited("key.shred")]
        self.assertEqual(
            {entry["id"] for entry in audited if "id" in entry},
            {receipt["id"] for receipt in reply["receipts"]},
        )
        self.assertTrue(server.audit_holds())
        # Who comes back is served again, under another key.
        server.ingest("visits", shop.visits(1, day=3))
        self.assertEqual(present(server), set(range(shop.CUSTOMERS)))

    def test_nor_without_a_key_of_their_own(self):
        _, reply, found = self.erase_and_put_old_rows_back(subject_keys=False)
        self.assertEqual(found, set(range(shop.CUSTOMERS)) - {PERSON})
        self.assertNotIn("FeatureView/visits", {each["object"] for each in reply["receipts"]})

    def test_a_shredded_view_is_gone_at_once_and_takes_new_rows(self):
        server = self.open_shop(subject_keys=True)
        outcome = self.shred(server, "FeatureView/visits")
        self.assertEqual(outcome["opens_refused"], outcome["opens_tried"])
        self.assertEqual(present(server), set(), "before any restart")
        self.assertEqual(server.rows("visits"), 0)
        server.kill()
        server.start()
        server.wait_ready("shop")
        self.assertEqual(present(server), set())
        server.ingest("visits", shop.visits(2, customers=10))
        self.assertEqual(present(server), set(range(10)))
        self.assertEqual(server.rows("bought"), shop.CUSTOMERS, "everything else stays")

    def test_a_shredded_model_answers_nobody(self):
        server = self.open_shop(subject_keys=False)
        self.shred(server, "Model/shop")
        reply = server.request("POST", "/api/v1/deployments/shop:predict", shop.entities(1))
        self.assertEqual(reply.status, 503, reply.text)
        wait_until(lambda: server.deployment("shop")["state"] == "failed", "the deployment")
        export = server.request("GET", "/api/v1/models/shop/versions/1/onnx")
        self.assertIn("FJ-7041", export.text)

    def test_what_an_earlier_run_did_not_tell_a_later_declaration_does_not_either(self):
        """Checkpoints of a job of which one run named no set are told, whatever it names now."""
        server = self.open_shop(subject_keys=False)
        save = "cd $FALAJ_CKPT_DIR && mkdir a.tmp && echo weights > a.tmp/w && mv a.tmp a"
        told = [("silent", None, None), ("changed", None, "other"), ("honest", "shop", "shop")]
        jobs = {}
        for name, at_first, later in told:
            job = shop.thing("TrainJob", name, engine="command", command=["sh", "-c", save])
            job["spec"]["workers"] = {"cpu": 0.1, "memory": "128Mi"}
            jobs[name] = (self.learning_from(job, at_first), self.learning_from(job, later))
        # A set in which nobody is: it was never frozen.
        spine = {"view": "bought", "label": "bought"}
        server.apply(shop.thing("TrainingSet", "other", service="shop", spine=spine))
        for at_first, later in jobs.values():
            server.apply(at_first)
            ended = server.job_ended(server.train(at_first["metadata"]["name"])["job"])
            self.assertEqual(ended["status"], "succeeded", ended)
            server.apply(later)
        reply = self.erase(server)
        self.assertEqual(sorted(reply["checkpoints"]), ["TrainJob/changed", "TrainJob/silent"])
        shredded = {receipt["object"] for receipt in reply["receipts"]}
        self.assertEqual(shredded & {f"TrainJob/{name}" for name in jobs}, {"TrainJob/honest"})

    @staticmethod
    def learning_from(job, training_set):
        if training_set is None:
            return job
        spec = {**job["spec"], "capture": {"data": {"training_set": training_set}}}
        return {**job, "spec": spec}


if __name__ == "__main__":
    unittest.main(verbosity=2)

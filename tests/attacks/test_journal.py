"""Attacks on the journal of reads: texts that hide one's own rows, or push out those of others."""

import unittest

from arena import Arena
from program import wait_until

MADE_UP = 150
LONG = "x" * 7000  # More than a row's share, many times over.


class Journal(Arena):
    def rows(self):
        """All rows that were ever entered, as one text; each look at one is an entry itself."""
        batches = self.server.audited("access.batch")
        opened = [
            self.server.good("POST", f"/api/v1/audit/{each['sequence']}:open", {})
            for each in batches
        ]
        return "".join(text["text"] for each in opened for text in each["openings"])

    def test_what_was_decided_is_counted_and_not_what_was_said(self):
        for number in range(MADE_UP):
            self.server.request("GET", f"/api/v1/feature-views?project={LONG}{number}")
        self.server.request("POST", f"/v2/models/default.shop/infer?project={LONG}", {"inputs": []})
        self.server.request("GET", "/api/v1/feature-views/last/profiles?project=default")
        looked = len(self.server.audited("audit.open"))
        last = '"data.read","default","FeatureView/last"'
        text = wait_until(lambda: (lambda all: all if last in all else None)(self.rows()), "rows")
        self.assertNotIn(LONG, text)
        self.assertIn('["user:dev","serving.predict","default","Deployment/shop",1]', text)
        batches = self.server.audited("access.batch")
        self.assertEqual(sum(each["detail"]["rows"] for each in batches), text.count("\n"))
        counted = sum(
            int(row.rsplit(",", 1)[1].rstrip("]"))
            for row in text.splitlines()
            if '"features.read",""' in row
        )
        self.assertGreaterEqual(counted, MADE_UP)
        self.assertGreater(len(self.server.audited("audit.open")), looked, "nobody saw the look")


if __name__ == "__main__":
    unittest.main()

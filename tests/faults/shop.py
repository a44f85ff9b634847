"""A small world to break: customers, what they did, whether they bought; a model over it."""
import random

CUSTOMERS = 300
FIRST_DAY = 1


def thing(kind, name, **spec):
    return {"apiVersion": "falaj.dev/v1", "kind": kind,
            "metadata": {"name": name, "project": "default"}, "spec": spec}


def features():
    return [
        thing("Entity", "customer", keys=[{"name": "customer_id", "type": "int64"}]),
        thing("Source", "visits_file", format="csv", path="visits.csv", event_time="at"),
        thing("Source", "labels_file", format="csv", path="labels.csv", event_time="at"),
        thing("FeatureView", "visits", entity="customer", source="visits_file",
              features=[{"name": "pages", "type": "float64"}, {"name": "batch", "type": "int64"}]),
        thing("FeatureView", "bought", entity="customer", source="labels_file", online=False,
              features=[{"name": "bought", "type": "int64"}]),
        thing("FeatureService", "shop", features=["visits"]),
        thing("TrainingSet", "shop", service="shop", spine={"view": "bought", "label": "bought"},
              split={"by": "customer_id", "valid": "20%"}),
        thing("Model", "shop", description="Whether a customer buys"),
    ]


def train_job(name="train", rounds=20, params=None, **resources):
    usual = {"num_leaves": 7, "rounds": rounds, "min_data_in_leaf": 5, "seed": 7}
    return thing("TrainJob", name, data={"training_set": "shop"}, engine="lightgbm",
                 params={**usual, **(params or {})},
                 resources={"threads": 1, "memory": "1Gi", "time_max": "5m", **resources},
                 register={"model": "shop", "verify_rows": 100000})


def deployment():
    return thing("Deployment", "shop", model="shop", alias="champion", features="shop")


def moment(day, second=0):
    return (f"2026-01-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z")


def visits(batch, day=FIRST_DAY, second=0, customers=CUSTOMERS, scale=1.0):
    """One visit of every customer, all at one moment; `batch` is a feature, to be seen again."""
    chance = random.Random(f"visits {batch} {scale}")
    lines = ["customer_id,at,pages,batch"]
    for customer in range(customers):
        pages = scale * (customer % 10 + chance.random())
        lines.append(f"{customer},{moment(day, second)},{pages:.4f},{batch}")
    return "\n".join(lines) + "\n"


def labels(day=FIRST_DAY, second=3600, customers=CUSTOMERS, turned=False):
    """Who visits many pages buys; in the turned world, who visits few."""
    chance = random.Random(f"labels {day} {second}")
    lines = ["customer_id,at,bought"]
    for customer in range(customers):
        buys = (customer % 10 + chance.gauss(0, 1) > 5) != turned
        lines.append(f"{customer},{moment(day, second)},{int(buys)}")
    return "\n".join(lines) + "\n"


def stock(server):
    """Declared and filled: one batch of visits, one of labels, a frozen set."""
    server.apply(*features(), train_job(), deployment())
    server.ingest("visits", visits(0))
    server.ingest("bought", labels())
    return server.good("POST", "/api/v1/training-sets/shop:freeze", {})


def open_shop(server):
    """Stocked, trained, and serving version 1."""
    stock(server)
    ended = server.job_ended(server.train("train")["job"])
    if ended["status"] != "succeeded":
        raise AssertionError(f"the first training failed: {ended['error']}")
    server.good("PUT", "/api/v1/models/shop/aliases/champion", {"version": 1, "reason": "first"})
    server.wait_ready("shop")


def entities(customers=CUSTOMERS):
    return {"entities": [{"customer_id": customer} for customer in range(customers)]}


def predict(server, customers=CUSTOMERS):
    reply = server.good("POST", "/api/v1/deployments/shop:predict?explain=true",
                        entities(customers))
    return reply["predictions"]

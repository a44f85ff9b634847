"""Trains one model over all workers with XGBoost or LightGBM; rank 0 prints its predictions.

usage: boosters.py xgboost|lightgbm
Without a launcher: the same on all rows in this process. Every feature has ten values, all of them
in each worker's share, so that the bins are the same however the rows are split.
"""

import json
import os
import sys

import numpy as np

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def rows():
    random = np.random.default_rng(5)
    x = random.integers(0, 10, size=(2000, 6)).astype(np.float32)
    y = (x[:, 0] + 2 * x[:, 1] - x[:, 2] * x[:, 3] / 4 > 6).astype(np.float32)
    return x, y


def with_xgboost(x, y):
    import contextlib

    import xgboost
    from xgboost.collective import CommunicatorContext
    from xgboost.tracker import RabitTracker

    where, tracker = contextlib.nullcontext(), None
    if WORLD > 1:
        host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
        if RANK == 0:
            tracker = RabitTracker(host_ip=host, n_workers=WORLD, port=port, timeout=60)
            tracker.start()
        where = CommunicatorContext(
            dmlc_communicator="rabit",
            dmlc_tracker_uri=host,
            dmlc_tracker_port=port,
            dmlc_task_id=os.environ["DMLC_TASK_ID"],
            dmlc_retry=20,
        )
    with where:
        own = slice(RANK, None, WORLD)
        settings = {"tree_method": "hist", "max_depth": 4, "objective": "binary:logistic",
                    "nthread": 1}
        model = xgboost.train(settings, xgboost.DMatrix(x[own], y[own]), 8)
        predicted = model.predict(xgboost.DMatrix(x[:200]))
    if tracker is not None:
        tracker.wait_for(60)  # The others say goodbye to it.
    return predicted


def with_lightgbm(x, y):
    import lightgbm

    settings = {"objective": "binary", "num_leaves": 8, "num_threads": 1, "verbose": -1,
                "min_data_in_leaf": 5, "enable_bundle": False}
    if WORLD > 1:
        settings |= {"tree_learner": "data", "num_machines": WORLD, "time_out": 1,
                     "machines": os.environ["FALAJ_LIGHTGBM_MACHINES"],
                     "local_listen_port": int(os.environ["FALAJ_PORT"]),
                     "pre_partition": True}
    own = slice(RANK, None, WORLD)
    model = lightgbm.train(settings, lightgbm.Dataset(x[own], y[own]), 8)
    return model.predict(x[:200])


if __name__ == "__main__":
    predicted = {"xgboost": with_xgboost, "lightgbm": with_lightgbm}[sys.argv[1]](*rows())
    if RANK == 0:
        print("predicted", json.dumps([float(p) for p in predicted]), flush=True)

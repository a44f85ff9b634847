// api/feast/feast_routes.h — Feast's feature server, over HTTP: its own clients work unmodified.
//
//   online_store: {type: remote, path: http://127.0.0.1:7070/feast/payments}
//
// Each route stands at the root, about the project of ?project= or "default", and under
// /feast/{project}. A feature view is a FeatureView, a push source is the Source of one or several.
// What is ingested or pushed is online at once, so that materializing only makes sure of it.
#pragma once

#include <vector>

#include "api/native/online_desk.h"
#include "net/router.h"

namespace falaj::api {

// Errors are as Feast's: 404 for what does not exist, 422 {"detail": …} for a body that is not
// right, 401 and 403 for who may not, 500 for the rest.
std::vector<net::Route> feast_routes(OnlineDesk& desk);

}  // namespace falaj::api

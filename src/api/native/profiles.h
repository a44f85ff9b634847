// api/native/profiles.h — what ingested rows looked like, and whether they keep coming, over HTTP.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "features/arrivals.h"
#include "features/profiles.h"
#include "net/router.h"

namespace falaj::api {

// features::read_profiles over the program's stores.
using ReadProfiles = std::function<Result<Value>(const ProjectName&, const std::string& view,
                                                 const features::ProfileQuery&)>;

// features::read_arrivals, now.
using ReadArrivals = std::function<Result<std::vector<features::ViewArrival>>(const ProjectName&)>;

std::vector<net::Route> profile_routes(ReadProfiles read, ReadArrivals arrivals);

}  // namespace falaj::api

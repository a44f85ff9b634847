// api/native/online_desk.h — what the routes about features online share: :read, :push, :explain,
// and Feast's own.
#pragma once

#include <vector>

#include "catalog/catalog.h"
#include "exec/pool.h"
#include "features/explain.h"
#include "features/online.h"
#include "features/push.h"
#include "net/router.h"

namespace falaj::api {

// Outlives the router. The pool is for reads that cannot be answered on the event loop: a plan must
// be made, or much is asked for.
struct OnlineDesk {
  features::Online& online;
  features::Pushes& pushes;
  const features::Explainer& explainer;
  const catalog::Catalog& catalog;
  const Clock& clock;
  exec::Pool pool{{"online", 1, 256}};
};

// Values of one reply: more are not answered on the event loop, where others wait; and not at all.
inline constexpr std::size_t kLoopCells = 10'000;
inline constexpr std::size_t kCellsMax = 1'000'000;
// FJ-1006 past kCellsMax. `columns` is the larger of those that are read and those that are
// written: a request may name one twice.
Status check_cells(std::size_t rows, std::size_t columns);
// FJ-1006 when the texts of these columns come to more than OnlineAnswer::kTextsMax.
Status check_texts(const features::OnlinePlan& plan, const std::vector<std::size_t>& columns,
                   const features::OnlineAnswer& answer);

std::vector<net::Route> online_routes(OnlineDesk& desk);

}  // namespace falaj::api

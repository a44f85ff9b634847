// api/native/online_desk.h — what the routes about features online share: :read, :push, :explain,
// and Feast's own.
#pragma once

#include <span>
#include <vector>

#include "catalog/catalog.h"
#include "exec/pool.h"
#include "features/explain.h"
#include "features/online.h"
#include "features/push.h"
#include "net/router.h"

namespace falaj::api {

// Outlives the router. The pool is for reads that cannot be answered on the event loop: a plan must
// be made, much is asked for, or a row is not in memory.
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
// Where an answer is made: on the event loop nothing may wait for the disk.
enum class OnLoop : std::uint8_t { kNo, kYes };
// False when it would have to wait.
[[nodiscard]] bool read_rows(const features::Online& online, const features::OnlinePlan& plan,
                             std::span<const features::KeyPart> keys,
                             const features::OnlineAsk& ask, OnLoop on_loop,
                             features::OnlineAnswer& out);
// FJ-1006 when the texts of these columns come to more than OnlineAnswer::kTextsMax, and why a row
// could not be read.
Status check_answer(const features::OnlinePlan& plan, const std::vector<std::size_t>& columns,
                    const features::OnlineAnswer& answer);

std::vector<net::Route> online_routes(OnlineDesk& desk);

}  // namespace falaj::api

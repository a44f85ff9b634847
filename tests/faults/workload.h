// tests/faults/workload.h — writes whose every byte can be foretold, so that a checker in another
// process knows what an acknowledged write must have left.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "storage/open.h"

namespace falaj::faults {

// The sealed ones are what the program uses: the same adapters under security/sealed.
enum class Port : std::uint8_t { kSql, kKv, kBlob, kSealedSql, kSealedKv, kSealedBlob };

std::string to_string(Port port);
Result<Port> port_from(const std::string& name);

// Write number `index` of `lane` (one thread) in `round` (one life of the process).
struct Write {
  int round = 0;
  int lane = 0;
  int index = 0;
};

// Some hundred bytes, now and then 64 KiB, so that logs roll and pages overflow.
std::string content_of(const Write& write);

// One open store. Thread-safe as the port below it.
class Target {
 public:
  static Result<std::unique_ptr<Target>> open(Port port, const std::string& folder,
                                              storage::Durability durability);
  virtual ~Target() = default;
  // The content, and in the same transaction the lane's counter. Durable when it returns ok.
  virtual Status put(const Write& write) = 0;
  // Ok if exactly this content is there.
  virtual Status check(const Write& write) = 0;
  // Ok if everything up to the counter of this round and lane is there: no half transaction.
  virtual Status check_whole(int round, int lane) = 0;
};

}  // namespace falaj::faults

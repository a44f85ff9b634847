// cli/batch/askers.h — rows to a deployment and its answers back: as tensors, or by entity.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch/patience.h"
#include "cli/batch/tensors.h"
#include "cli/connection.h"

namespace falaj::cli::batch {

// What answers, found out once: every answer has to be of it.
struct Served {
  std::string deployment;
  std::string model;
  std::int64_t version = 0;
  std::string sha256;  // Of the model's file.
  std::vector<std::string> features;
  std::vector<TensorForm> inputs;
  std::vector<TensorForm> outputs;
  std::size_t rows_together = 1;  // Rows of a request that are answered as each alone.
  std::string graph;              // Names the files of all steps; "": it is one model.
};
// `version` 0: the one that serves. FJ-5001, FJ-5003.
Result<Served> find_served(Connection& connection, const std::string& deployment,
                           std::int64_t version);

// FJ-0005 when a step of a graph has another version than when it was found.
Status check_unchanged(Connection& connection, const Served& served);

// Of a CSV file: key columns become what the project's Entities declare, so that "00042" stays the
// text that it is. Where two Entities disagree about a name the last one counts, and the server
// says what is wrong.
Status take_key_types(Connection& connection, const std::vector<std::string>& keys,
                      table::Schema& file);

// Not thread-safe.
class Asker {
 public:
  virtual ~Asker() = default;
  // The answers to the rows go behind those in `answered`, whose columns are made when it has none.
  virtual Status ask(const Rows& rows, table::Batch& answered) = 0;
  // The columns of answers, also when nothing was asked.
  virtual Result<table::Schema> fields() const = 0;
  // Columns of the file that are sent, as what; and those of them that are the model's inputs.
  virtual const table::Schema& reads() const = 0;
  virtual bool takes(const std::string& column) const = 0;
  virtual std::size_t rows_of_request() const = 0;
  // What else the caller may want to know of the answers.
  virtual void tell(Value& summary) const = 0;
};

struct AskOptions {
  Target target;
  std::vector<std::string> inputs;  // As Naming::given.
  std::vector<std::string> keys;
  std::size_t rows = 0;  // Of a request; 0: as many as are answered as alone.
  Patience patience;
};
// By the inference route. `file` has the types as they stand there.
Result<std::unique_ptr<Asker>> tensor_asker(const Served& served, const AskOptions& options,
                                            const table::Schema& file, Typed typed);
// By :predict, with `options.keys` as the entity; columns of int64 or string.
Result<std::unique_ptr<Asker>> entity_asker(const Served& served, const AskOptions& options,
                                            const table::Schema& file);

}  // namespace falaj::cli::batch

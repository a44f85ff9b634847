// training/engine_process.h — how the server and its training process pass things to each other.
//
// Everything goes through descriptors that the server opened: the order (a sealed memory file), the
// training set (as it lies on disk, with the ticket that opens it in the order), and one memory
// file for each thing the process gives back. So nothing readable lies in any folder, and the
// process needs no right to open or make a file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "exec/child.h"
#include "registry/models.h"
#include "storage/blob.h"
#include "training/engine.h"

namespace falaj::training {

// The process's descriptors; 3 is the channel of exec/child.h.
inline constexpr int kOrderDescriptor = 4;   // JSON: {config, ticket}
inline constexpr int kDataDescriptor = 5;    // The training set's bytes on disk.
inline constexpr int kTextDescriptor = 6;    // Out: the engine's own model.
inline constexpr int kOnnxDescriptor = 7;    // Out: model.onnx
inline constexpr int kResultDescriptor = 8;  // Out: JSON; the result, or {code, message}.

// The server's side of one process.
class EngineFiles {
 public:
  // `grant` is for the training set.
  static Result<EngineFiles> create(const EngineConfig& config, storage::BlobGrant grant);

  // What the process inherits.
  std::vector<exec::Inherited> inherited() const;

  // result.json, checked: the fields a registration is made of.
  struct Outcome {
    Value metrics;
    Value proof;
    registry::Signature signature;
    std::int64_t rounds = 0;
    std::string model_text;
    std::string model_onnx;
  };
  // FJ-4006 unless the proof covers at least `verify_rows` rows without a mismatch; FJ-4001 for a
  // result that is missing, malformed, too large or about other features than `features`.
  Result<Outcome> outcome(const std::vector<std::string>& features, std::int64_t verify_rows) const;
  // What the process said when it failed; `otherwise` when it said nothing readable.
  Error error(const Error& otherwise) const;

 private:
  EngineFiles() = default;
  std::shared_ptr<const Descriptor> order_, data_, text_, onnx_, result_;
};

// Opens what lies on disk with its ticket: storage and keys are the caller's business.
using OpenGranted =
    std::function<Result<std::unique_ptr<ByteReader>>(Descriptor file, const std::string& ticket)>;

// The process's side: takes the order, trains, leaves the result. An error was left for the server
// already; it is returned for the log.
Status run_engine_process(const OpenGranted& open, const OnnxRunner& onnx, const Report& report);

}  // namespace falaj::training

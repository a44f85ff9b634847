// cli/batch/tensors.h — columns of a file as tensors of a request, and tensors of an answer as
// columns. Pure functions; what a server sent is bounded and checked like any outside bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "table/batch.h"

namespace falaj::cli::batch {

// Elements of one row of one tensor.
inline constexpr std::size_t kWidthMax = 65'536;

struct TensorForm {
  std::string name;
  std::string datatype;             // "FP32", "INT64", "BYTES" …
  std::vector<std::int64_t> shape;  // -1: open.
};
// From a model's metadata, or from an answer.
Result<std::vector<TensorForm>> tensor_forms(const Value& list);

// An input, and which columns of the file are its elements in each row.
struct InputPlan {
  TensorForm form;  // Without open dimensions but the first.
  std::vector<std::string> columns;
};
struct Naming {
  std::vector<std::string> features;  // Of the one input, as the model knows them; may be empty.
  std::vector<std::string> given;     // "input=a,b,c", by the caller.
};
// Whether a column is what the file says, or, of a CSV file, what the model takes: its first lines
// say nothing about those that follow, and no line nothing about anything.
enum class Typed : std::uint8_t { kByFile, kByModel };
table::Type type_to_read(const TensorForm& form, table::Type found, Typed typed);

// Each input takes the columns that `given` names; otherwise the model's features; otherwise, if
// its rows have one element, the column of its own name. FJ-1016 for what cannot be understood or
// for an input whose first dimension does not count rows, FJ-3002 for a column that the file lacks
// or that is a text where numbers are wanted.
Result<std::vector<InputPlan>> plan_inputs(const std::vector<TensorForm>& forms,
                                           const Naming& naming, const table::Schema& file,
                                           Typed typed = Typed::kByFile);
// Whether several rows may be in a request at all: every first dimension is open.
enum class Together : std::uint8_t { kNo, kYes };
Together together_of(const std::vector<TensorForm>& inputs, const std::vector<TensorForm>& outputs);

// Rows of a batch, with the lines of the file that messages name.
struct Rows {
  const table::Batch& batch;
  const std::vector<std::uint64_t>& lines;
  std::size_t from = 0;
  std::size_t count = 0;
};
// The input's bytes: little-endian, row by row. A missing value is NaN in a tensor of floats;
// elsewhere it is kInvalidArgument, as is a number that the type cannot hold.
Status append_input(const InputPlan& plan, const Rows& rows, std::string& out);

// The JSON before the tensors, `head_bytes(plans)` long whatever the sizes are: blanks follow it.
std::size_t head_bytes(const std::vector<InputPlan>& plans);
std::string infer_head(const std::vector<InputPlan>& plans, std::size_t rows,
                       const std::vector<std::size_t>& sizes);

struct OutputTensor {
  TensorForm form;
  std::string_view bytes;  // Into the body.
};
struct Answer {
  std::string version;
  std::vector<OutputTensor> outputs;
};
// A reply whose first `json_bytes` are JSON (as its header says in text) and whose rest are the
// tensors. kInternal when it is no such thing.
Result<Answer> read_answer(std::string_view body, std::string_view json_bytes);

// The columns that outputs become: "score", or "score_0", "score_1" … of one with several elements
// a row. FP16 to FP64 are float64, whole numbers int64, BYTES string. kInvalidArgument for an
// output whose first dimension is not `rows` (-1: of the metadata) or whose width is not known.
Result<std::vector<table::Field>> output_fields(const std::vector<TensorForm>& outputs,
                                                std::int64_t rows);
// Appends the answer's rows to the columns of output_fields(). kInternal when the bytes do not fit
// the shape, kInvalidArgument for a number beyond int64.
Status append_outputs(const std::vector<OutputTensor>& outputs, std::size_t rows,
                      std::span<table::Column> columns);

}  // namespace falaj::cli::batch

#include "serving/explain/explain.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "serving/datatypes.h"
#include "serving/explain/sampling.h"
#include "serving/internal/logged_rows.h"

namespace falaj::serving::explain {
namespace {

Error mismatch(std::string text) { return Error(ErrorId::kTensorMismatch, std::move(text)); }

Error beyond(const std::string& what, std::size_t got, std::size_t max) {
  return Error(ErrorId::kOutOfRange, what + ": at most " + std::to_string(max) +
                                         " per request to explain, not " + std::to_string(got));
}

// One input, cut into cells: each is a feature.
struct Columns {
  const Tensor* tensor = nullptr;
  std::size_t cells = 0;  // Of a row.
  std::size_t cell_bytes = 0;
};

struct Shape {
  std::vector<Columns> inputs;
  std::size_t rows = 0;  // To explain; the background comes after them.
  std::size_t background = 0;
  std::size_t features = 0;
};

Result<Columns> columns_of(const Tensor& tensor, std::size_t rows) {
  const Datatype type = FALAJ_TRY(parse_datatype(tensor.datatype));
  if (type == Datatype::kBytes) {
    return Error(ErrorId::kUnimplemented,
                 "input '" + tensor.name + "' is BYTES: models of texts are not explained");
  }
  const std::size_t elements = FALAJ_TRY(element_count(tensor.shape));
  if (tensor.shape.empty() || rows_of(tensor) != rows || rows == 0 ||
      tensor.bytes.size() != elements * element_bytes(type)) {
    return mismatch("input '" + tensor.name + "' has shape " + shape_text(tensor.shape) +
                    ": to explain rows, every input needs the same number of them, at least one");
  }
  return Columns{&tensor, elements / rows, element_bytes(type)};
}

Result<Shape> shape_of(const Question& question) {
  Shape shape;
  if (question.inputs.empty()) return mismatch("there is no input to explain");
  const std::size_t all = rows_of(question.inputs[0]);
  for (const Tensor& tensor : question.inputs) {
    shape.inputs.push_back(FALAJ_TRY(columns_of(tensor, all)));
    shape.features += shape.inputs.back().cells;
  }
  if (question.background_rows >= all) {
    return mismatch("of " + std::to_string(all) + " rows, background_rows leaves none to explain");
  }
  shape.background = question.background_rows;
  shape.rows = all - shape.background;
  if (shape.rows > kRowsMax) return beyond("rows", shape.rows, kRowsMax);
  if (shape.background > kBackgroundMax) {
    return beyond("background_rows", shape.background, kBackgroundMax);
  }
  if (shape.features == 0) return mismatch("the inputs have no features");
  return shape;
}

// The one matrix that trees take.
Result<Explanation> explain_trees(const RowExplainer& trees, const Session& session,
                                  const Shape& shape, const std::function<bool()>& late) {
  Explanation out;
  out.method = Method::kTrees;
  const registry::TensorSpec& scores = session.signature().outputs.back();
  out.output = scores.name;
  out.column = trees.explained_column();
  out.scale = trees.scale() == RowExplainer::Scale::kLogOdds ? "log_odds" : "sum";
  std::vector<float> row(shape.features);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    if (late())
      return Error(ErrorId::kDeadlineExceeded,
                   "its budget was spent after " + std::to_string(i) + " rows");
    std::memcpy(row.data(), shape.inputs[0].tensor->bytes.data() + i * row.size() * sizeof(float),
                row.size() * sizeof(float));
    RowExplanation& explained = out.rows.emplace_back();
    explained.base = trees.base();
    explained.contributions.resize(row.size());
    FALAJ_TRY(trees.explain(row, explained.contributions, late));
    explained.value = std::accumulate(explained.contributions.begin(),
                                      explained.contributions.end(), explained.base);
  }
  return out;
}

bool is_float(const std::string& datatype) { return datatype == "FP32" || datatype == "FP64"; }

// Which output and column of it is explained.
struct Wanted {
  std::size_t output = 0;
  std::optional<std::size_t> column;
};

Result<Wanted> wanted_of(const Session& session, const Question& question) {
  const std::vector<registry::TensorSpec>& outputs = session.signature().outputs;
  const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const auto& spec) {
    return question.output.empty() ? is_float(spec.datatype) : spec.name == question.output;
  });
  if (found == outputs.end()) {
    return mismatch(question.output.empty()
                        ? "the model has no output of floats to explain"
                        : "the model has no output '" + question.output.substr(0, 64) + "'");
  }
  if (!is_float(found->datatype)) {
    return mismatch("output '" + found->name + "' is " + found->datatype +
                    ": only floats are explained");
  }
  return Wanted{static_cast<std::size_t>(found - outputs.begin()), question.column};
}

// Of each row the wanted column, which is set when it was left open.
Result<std::vector<double>> column_of(const Tensor& tensor, std::size_t rows,
                                      std::optional<std::size_t>& column) {
  const std::size_t bytes = tensor.datatype == "FP64" ? sizeof(double) : sizeof(float);
  if (rows_of(tensor) != rows || tensor.bytes.size() % (rows * bytes) != 0 ||
      tensor.bytes.empty()) {
    return mismatch("output '" + tensor.name + "' has shape " + shape_text(tensor.shape) +
                    ", not a row for each of " + std::to_string(rows));
  }
  const std::size_t width = tensor.bytes.size() / bytes / rows;
  if (!column.has_value()) column = width - 1;
  if (*column >= width) {
    return mismatch("output '" + tensor.name + "' has " + std::to_string(width) +
                    " columns, not column " + std::to_string(*column));
  }
  std::vector<double> out(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const char* const at = tensor.bytes.data() + (row * width + *column) * bytes;
    float single = 0;
    if (bytes == sizeof(double)) {
      std::memcpy(&out[row], at, sizeof(double));
    } else {
      std::memcpy(&single, at, sizeof(float));
      out[row] = single;
    }
  }
  return out;
}

// The rows as the model takes them.
std::vector<Tensor> mix(const Shape& shape, const Mixed& mixed) {
  std::vector<Tensor> out;
  const std::size_t count = mixed.background.size();
  std::size_t first = 0;  // Feature of the input.
  for (const Columns& input : shape.inputs) {
    Tensor& tensor = out.emplace_back(
        Tensor{input.tensor->name, input.tensor->datatype, input.tensor->shape, {}});
    tensor.shape[0] = static_cast<std::int64_t>(count);
    const std::size_t row_bytes = input.cells * input.cell_bytes;
    tensor.bytes.resize(count * row_bytes);
    for (std::size_t i = 0; i < count; ++i) {
      const char* const own = input.tensor->bytes.data() + mixed.row * row_bytes;
      const char* const other =
          input.tensor->bytes.data() + (shape.rows + mixed.background[i]) * row_bytes;
      char* const into = tensor.bytes.data() + i * row_bytes;
      for (std::size_t cell = 0; cell < input.cells; ++cell) {
        const bool taken = mixed.taken[i * shape.features + first + cell] != 0;
        std::memcpy(into + cell * input.cell_bytes, (taken ? own : other) + cell * input.cell_bytes,
                    input.cell_bytes);
      }
    }
    first += input.cells;
  }
  return out;
}

Result<Explanation> explain_samples(const Session& session, const Question& question,
                                    const Shape& shape, const std::function<bool()>& late) {
  for (const registry::TensorSpec& spec : session.signature().inputs) {
    if (!spec.shape.empty() && spec.shape[0] < 0) continue;
    return Error(ErrorId::kUnimplemented, "input '" + spec.name + "' has shape " +
                                              shape_text(spec.shape) +
                                              ": a model without a batch is not explained");
  }
  if (shape.features > kFeaturesMax) return beyond("features", shape.features, kFeaturesMax);
  if (question.pairs_max > kPairsMax) return beyond("samples", question.pairs_max, kPairsMax);
  if (shape.background == 0) {
    return Error(ErrorId::kInvalidArgument,
                 "this model is explained by sampling, against rows of a background: send them "
                 "after the rows to explain, and their number as background_rows");
  }
  Wanted wanted = FALAJ_TRY(wanted_of(session, question));
  const Score score = [&](const Mixed& mixed) -> Result<std::vector<double>> {
    const std::vector<Tensor> outputs = FALAJ_TRY(session.run(mix(shape, mixed)));
    if (wanted.output >= outputs.size()) return mismatch("the model gave fewer outputs");
    return column_of(outputs[wanted.output], mixed.background.size(), wanted.column);
  };
  SamplingOptions options{
      shape.rows, shape.background, shape.features, question.pairs_max, question.seed, 2048, late};
  std::vector<Sampled> sampled = FALAJ_TRY(sample(options, score));
  Explanation out;
  out.method = Method::kSampling;
  out.output = session.signature().outputs[wanted.output].name;
  out.column = wanted.column.value_or(0);
  out.scale = "output";
  for (Sampled& each : sampled) {
    out.rows.push_back(
        {each.base, each.value, std::move(each.contributions), std::move(each.errors), each.pairs});
  }
  return out;
}

// Whether the trees answer this question: they explain one column, from one matrix.
bool trees_answer(const RowExplainer& trees, const Session& session, const Question& question,
                  const Shape& shape) {
  const std::string& scores = session.signature().outputs.back().name;
  return shape.inputs.size() == 1 && question.inputs[0].datatype == "FP32" &&
         shape.features == trees.explained_features() &&
         (question.output.empty() || question.output == scores) &&
         question.column.value_or(trees.explained_column()) == trees.explained_column();
}

}  // namespace

std::string_view method_name(Method method) {
  return method == Method::kTrees ? "tree_shap" : "permutation_sampling";
}

std::vector<std::string> feature_names(const registry::Signature& signature,
                                       std::span<const Tensor> inputs) {
  std::vector<std::string> names;
  for (const Tensor& tensor : inputs) {
    std::size_t cells = 1;
    for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
      cells *= static_cast<std::size_t>(tensor.shape[i]);
    }
    if (inputs.size() == 1 && signature.features.size() == cells) return signature.features;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      names.push_back(cells == 1 ? tensor.name : tensor.name + "[" + std::to_string(cell) + "]");
    }
  }
  return names;
}

Result<Explanation> explain(const Session& session, const registry::Signature& names,
                            const Question& question, const std::function<bool()>& late) {
  const Shape shape = FALAJ_TRY(shape_of(question));
  const RowExplainer* const trees = session.explainer();
  Explanation out = trees != nullptr && trees_answer(*trees, session, question, shape)
                        ? FALAJ_TRY(explain_trees(*trees, session, shape, late))
                        : FALAJ_TRY(explain_samples(session, question, shape, late));
  out.features = feature_names(names, question.inputs);
  return out;
}

}  // namespace falaj::serving::explain

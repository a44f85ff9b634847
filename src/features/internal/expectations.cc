#include "features/internal/expectations.h"

#include <utility>

namespace falaj::features {

table::Schema source_columns(const FeatureView& view, const Entity& entity, const Source& source) {
  table::Schema out;
  const auto add = [&](const std::string& name, table::Type type) {
    if (!name.empty() && !out.find(name)) out.fields.push_back({name, type});
  };
  for (const table::Field& key : entity.keys) add(key.name, key.type);
  add(source.event_time, table::Type::kTimestamp);
  add(source.created_time, table::Type::kTimestamp);
  for (const Feature& feature : view.features) add(feature.name, feature.type);
  return out;
}

Result<std::vector<CompiledExpectation>> compile_expectations(const FeatureView& view,
                                                              const Entity& entity,
                                                              const Source& source) {
  const table::Schema columns = source_columns(view, entity, source);
  std::vector<CompiledExpectation> out;
  for (const RowExpectation& each : view.expect) {
    const std::string place = "expect \"" + each.name + "\"";
    for (const std::string& column : each.unique) {
      if (columns.find(column)) continue;
      return Error(ErrorId::kExpressionInvalid,
                   place + ": the view reads no column \"" + column + "\" from its source");
    }
    if (!each.unique.empty()) {
      out.push_back({each, std::nullopt});
      continue;
    }
    Result<expression::Expression> made =
        expression::Expression::compile(each.expr, columns, source.event_time);
    if (!made.ok()) return made.error().within(place);
    if (made->type() != table::Type::kBool) {
      return Error(ErrorId::kExpressionInvalid,
                   place + ": it must say whether a row is good, but " + each.expr + " is " +
                       std::string(table::type_name(made->type())) + ", not bool");
    }
    out.push_back({each, std::move(made).value()});
  }
  return out;
}

}  // namespace falaj::features

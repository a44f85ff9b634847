#include "features/internal/service_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/decode.h"

namespace falaj::features {
namespace {

constexpr std::string_view kRowTime = "__row_time";

// Names that an expression may use, with their slots.
struct Scope {
  table::Schema schema;
  std::map<std::string, std::size_t, std::less<>> slots;

  void add(const table::Field& field, std::size_t slot) {
    if (slots.emplace(field.name, slot).second) schema.fields.push_back(field);
  }
};

Result<ComputedColumn> compile(const ComputedFeature& feature, const Scope& scope) {
  const std::string place = "feature \"" + feature.name + "\"";
  Result<expression::Expression> made =
      expression::Expression::compile(feature.expr, scope.schema, kRowTime);
  if (!made.ok()) return made.error().within(place);
  if (made->type() != feature.type) {
    const std::string declared(table::type_name(feature.type));
    return Error(ErrorId::kExpressionInvalid,
                 place + " is declared as " + declared + ", but " + feature.expr + " is " +
                     std::string(table::type_name(made->type())) +
                     ": declare that type, or write " + declared + "(…)");
  }
  ComputedColumn out{std::move(made).value(), {}};
  for (const table::Field& input : out.expression.columns()) {
    out.inputs.push_back(scope.slots.find(input.name)->second);
  }
  return out;
}

class Layout {
 public:
  Layout(const FeatureService& service, const std::vector<ViewOfService>& views)
      : service_(service), views_(views) {}

  // Slots are known only when all reads and keys are: first those, then what is computed.
  Result<ServiceLayout> run() {
    FALAJ_TRY(check_expressions());
    for (std::size_t i = 0; i < views_.size(); ++i) FALAJ_TRY(read_part(i));
    for (std::size_t i = 0; i < views_.size(); ++i) FALAJ_TRY(add_columns(i));
    FALAJ_TRY(add_on_demand());
    return std::move(out_);
  }

 private:
  static bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // Whether the service takes the feature; of views without a list it takes all.
  static bool takes(const ServiceView& wanted, const std::string& feature) {
    return wanted.features.empty() || has(wanted.features, feature);
  }

  // Before any is compiled: each is bounded by itself, but there may be thousands.
  Status check_expressions() const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < views_.size(); ++i) {
      for (const ComputedFeature& feature : views_[i].view.computed) {
        if (takes(service_.views[i], feature.name)) bytes += feature.expr.size();
      }
    }
    for (const ComputedFeature& feature : service_.on_demand) bytes += feature.expr.size();
    if (bytes <= kExpressionsMax) return {};
    return Error(ErrorId::kOutOfRange, "its expressions are " + std::to_string(bytes) +
                                           " bytes, over " + std::to_string(kExpressionsMax) +
                                           " together: take fewer computed features");
  }

  Status read_part(std::size_t number) {
    const ServiceView& wanted = service_.views[number];
    const FeatureView& view = views_[number].view;
    ServicePart part;
    part.view = view.name;
    part.alias = wanted.as.empty() ? view.name : wanted.as;
    FALAJ_TRY(add_keys(wanted, views_[number].entity, part));
    FALAJ_TRY(check_features(wanted, view));
    const auto read = [&](const table::Field& field) {
      if (std::find(part.stored.begin(), part.stored.end(), field) != part.stored.end()) return;
      part.stored.push_back(field);
      out_.reads.push_back({part.alias + "__" + field.name, field.type});
    };
    // In the service's order, so that what is read is what is handed out where nothing is computed.
    for (const std::string& name : features_of(wanted, view)) {
      if (const auto type = read_type(view, name)) read({name, *type});
    }
    for (const ComputedFeature& feature : view.computed) {
      if (!takes(wanted, feature.name)) continue;
      const Scope scope = scope_of_view(number, 0);
      const ComputedColumn compiled = FALAJ_TRY(compile(feature, scope));
      for (const table::Field& input : compiled.expression.columns()) {
        if (read_type(view, input.name)) read(input);
      }
    }
    out_.parts.push_back(std::move(part));
    return {};
  }

  Status add_keys(const ServiceView& wanted, const Entity& entity, ServicePart& part) {
    for (const auto& [key, column] : wanted.keys) {
      const bool known =
          std::any_of(entity.keys.begin(), entity.keys.end(),
                      [&, name = key](const auto& each) { return each.name == name; });
      if (known) continue;
      return Error(ErrorId::kReferenceMissing, "keys of " + part.alias + ": \"" + key +
                                                   "\" is not a key of Entity " + entity.name);
    }
    for (const table::Field& key : entity.keys) {
      const auto mapped = wanted.keys.find(key.name);
      const std::string& column = mapped == wanted.keys.end() ? key.name : mapped->second;
      part.key_columns.push_back(column);
      const auto known = std::find_if(out_.keys.begin(), out_.keys.end(),
                                      [&](const auto& each) { return each.name == column; });
      if (known == out_.keys.end()) {
        out_.keys.push_back({column, key.type});
      } else if (known->type != key.type) {
        return Error(ErrorId::kSchemaMismatch,
                     "key column \"" + column +
                         "\" is int64 for one entity and string for another: give it one type");
      }
    }
    return {};
  }

  // Those that rows bring, and those over windows of them: what is not computed from others.
  static std::vector<table::Field> read_features(const FeatureView& view) {
    std::vector<table::Field> out;
    for (const Feature& feature : view.features) out.push_back({feature.name, feature.type});
    for (const AggregatedFeature& feature : view.aggregated) {
      out.push_back({feature.name, feature.type});
    }
    return out;
  }

  // Nothing when it is computed, or not there.
  static std::optional<table::Type> read_type(const FeatureView& view, const std::string& name) {
    for (const Feature& feature : view.features) {
      if (feature.name == name) return feature.type;
    }
    const AggregatedFeature* aggregated = find_aggregated(view, name);
    return aggregated == nullptr ? std::nullopt : std::optional(aggregated->type);
  }

  // In the service's order.
  static std::vector<std::string> features_of(const ServiceView& wanted, const FeatureView& view) {
    if (!wanted.features.empty()) return wanted.features;
    std::vector<std::string> out;
    for (const table::Field& feature : read_features(view)) out.push_back(feature.name);
    for (const ComputedFeature& feature : view.computed) out.push_back(feature.name);
    return out;
  }

  static Status check_features(const ServiceView& wanted, const FeatureView& view) {
    const std::vector<std::string> all = features_of({wanted.view, {}}, view);
    for (const std::string& name : wanted.features) {
      if (has(all, name)) continue;
      const std::string near = nearest_name(name, all);
      return Error(ErrorId::kReferenceMissing,
                   "FeatureView " + view.name + " has no feature \"" + name + "\"" +
                       (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
    }
    return {};
  }

  // What expressions of a view may read: what is read of it, its keys and the time.
  Scope scope_of_view(std::size_t number, std::size_t first_read) const {
    Scope scope;
    const bool laid_out = number < out_.parts.size();
    const FeatureView& view = views_[number].view;
    for (const table::Field& field : read_features(view)) {
      std::size_t slot = 0;
      if (laid_out) {
        const auto& stored = out_.parts[number].stored;
        slot = first_read + static_cast<std::size_t>(
                                std::find(stored.begin(), stored.end(), field) - stored.begin());
      }
      scope.add(field, slot);
    }
    const Entity& entity = views_[number].entity;
    for (std::size_t i = 0; i < entity.keys.size(); ++i) {
      scope.add(entity.keys[i], laid_out ? key_slot(out_.parts[number].key_columns[i]) : 0);
    }
    scope.add({std::string(kRowTime), table::Type::kTimestamp}, out_.time_slot());
    return scope;
  }

  std::size_t key_slot(const std::string& column) const {
    const auto key = std::find_if(out_.keys.begin(), out_.keys.end(),
                                  [&](const auto& each) { return each.name == column; });
    return out_.reads.size() + static_cast<std::size_t>(key - out_.keys.begin());
  }

  Status add_columns(std::size_t number) {
    const ServiceView& wanted = service_.views[number];
    const FeatureView& view = views_[number].view;
    const ServicePart& part = out_.parts[number];
    std::size_t first_read = 0;
    for (std::size_t i = 0; i < number; ++i) first_read += out_.parts[i].stored.size();
    const Scope scope = scope_of_view(number, first_read);
    const std::vector<std::string> names = features_of(wanted, view);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      ServiceColumn column;
      column.field.name = wanted.names.empty() ? name : wanted.names[i];
      column.full_name = part.alias + "__" + column.field.name;
      if (service_.names == NameStyle::kFull) column.field.name = column.full_name;
      if (const auto type = read_type(view, name)) {
        column.field.type = *type;
        column.slot = scope.slots.find(name)->second;
      } else {
        const auto feature =
            std::find_if(view.computed.begin(), view.computed.end(),
                         [&](const ComputedFeature& each) { return each.name == name; });
        column.field.type = feature->type;
        column.slot = out_.first_computed() + out_.computed.size();
        out_.computed.push_back(FALAJ_TRY(compile(*feature, scope)));
      }
      FALAJ_TRY(add_column(std::move(column)));
    }
    return {};
  }

  Status add_column(ServiceColumn column) {
    const auto same = [&](const auto& each) { return each.field.name == column.field.name; };
    if (std::any_of(out_.columns.begin(), out_.columns.end(), same)) {
      return Error(ErrorId::kFeatureNameCollision,
                   "two features are called \"" + column.field.name +
                       "\": rename one ({view: [{feature: other_name}]}), set full_names: true, or "
                       "take it from one view only");
    }
    for (const table::Field& key : out_.keys) {
      if (key.name != column.field.name) continue;
      return Error(ErrorId::kFeatureNameCollision,
                   "feature \"" + key.name + "\" is called like a key column: rename it");
    }
    out_.columns.push_back(std::move(column));
    return {};
  }

  Status add_on_demand() {
    Scope scope;
    for (const ServiceColumn& column : out_.columns) scope.add(column.field, column.slot);
    for (const table::Field& key : out_.keys) scope.add(key, key_slot(key.name));
    scope.add({std::string(kRowTime), table::Type::kTimestamp}, out_.time_slot());
    for (const ComputedFeature& feature : service_.on_demand) {
      const std::size_t slot = out_.first_computed() + out_.computed.size();
      out_.computed.push_back(FALAJ_TRY(compile(feature, scope)));
      const table::Field field{feature.name, feature.type};
      FALAJ_TRY(add_column({field, feature.name, slot}));
      scope.add(field, slot);
    }
    return {};
  }

  const FeatureService& service_;
  const std::vector<ViewOfService>& views_;
  ServiceLayout out_;
};

}  // namespace

Result<ServiceLayout> lay_out(const FeatureService& service,
                              const std::vector<ViewOfService>& views) {
  return Layout(service, views).run();
}

}  // namespace falaj::features

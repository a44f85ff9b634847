// features/internal/service_layout.h — what a FeatureService reads, computes and hands out.
//
// Freezing and online reading both follow a layout, so that a column means the same in either. The
// values of a row stand in slots: first what the parts read, then the keys, then the row's time,
// then what is computed, each from slots before it.
#pragma once

#include <string>
#include <vector>

#include "expression/expression.h"
#include "features/definitions.h"

namespace falaj::features {

struct ServicePart {
  std::string view;
  std::string alias;                     // In front of full names: `as`, or the view's name.
  std::vector<std::string> key_columns;  // Bring the entity's keys, in its order.
  std::vector<table::Field> stored;  // Features of the view to read, or to aggregate, each once.
};

struct ServiceColumn {
  table::Field field;     // As a model knows it.
  std::string full_name;  // "alias__feature"; of an on-demand feature its name.
  std::size_t slot = 0;
};

struct ComputedColumn {
  expression::Expression expression;
  std::vector<std::size_t> inputs;  // Slots, in the order of expression.columns().
};

struct ServiceLayout {
  std::vector<ServicePart> parts;
  std::vector<table::Field> reads;  // Of all parts, one after another; named "alias__feature".
  std::vector<table::Field> keys;   // Distinct columns that a request or spine brings.
  std::vector<ComputedColumn> computed;
  std::vector<ServiceColumn> columns;  // In the service's order.

  std::size_t time_slot() const { return reads.size() + keys.size(); }
  std::size_t first_computed() const { return time_slot() + 1; }
  bool is_computed(const ServiceColumn& column) const { return column.slot >= first_computed(); }
};

// Text of all expressions that a service computes: they run one after another for each row that is
// read, also where others wait for the thread.
inline constexpr std::size_t kExpressionsMax = 256u << 10;

struct ViewOfService {
  const FeatureView& view;
  const Entity& entity;
};

// `views` are those of service.views, in order. FJ-2003: a feature or key that is not there;
// FJ-3005: two columns of one name; FJ-3002: a key column of two types; FJ-3050: an expression that
// does not fit, or has another type than it is declared with; FJ-1006: more than kExpressionsMax.
Result<ServiceLayout> lay_out(const FeatureService& service,
                              const std::vector<ViewOfService>& views);

}  // namespace falaj::features

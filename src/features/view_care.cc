#include "features/view_care.h"

namespace falaj::features {

Result<Sensitivity> decode_sensitivity(Fields& fields) {
  if (fields.any("sensitivity").is_null()) return Sensitivity::kUnsaid;
  const std::string said = FALAJ_TRY(fields.choice("sensitivity", {"none", "personal"}));
  return said == "none" ? Sensitivity::kNone : Sensitivity::kPersonal;
}

Result<Arrival> decode_arrival(Fields& fields) {
  Arrival out;
  out.freshness = FALAJ_TRY(fields.duration("freshness", Duration{}));
  const bool volume = !fields.any("volume").is_null();
  const Value declared = FALAJ_TRY(fields.object("volume"));
  Fields inner(declared, fields.where() + " volume");
  out.rows_min = FALAJ_TRY(inner.integer("rows_min", 0, 0, INT64_MAX));
  out.every = FALAJ_TRY(inner.duration("every", Duration{}));
  FALAJ_TRY(inner.finish());
  if (out.freshness < Duration{}) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": 'freshness' is negative");
  }
  if (volume && (out.rows_min < 1 || out.every <= Duration{})) {
    return Error(ErrorId::kOutOfRange, inner.where() +
                                           " needs both, above 0, such as "
                                           "{rows_min: 1000, every: 1d}");
  }
  return out;
}

bool ViewCare::is_personal(const std::string& feature, const Entity& entity) const {
  const auto own = features.find(feature);
  for (const Sensitivity said :
       {own == features.end() ? Sensitivity::kUnsaid : own->second, sensitivity}) {
    if (said != Sensitivity::kUnsaid) return said == Sensitivity::kPersonal;
  }
  return entity.row_key == storage::RowKey::kItsOwn;
}

Result<ViewCare> decode_view_care(const storage::Object& object) {
  const std::string where = "FeatureView " + object.name + " spec";
  Fields fields(object.spec, where);
  ViewCare out;
  out.sensitivity = FALAJ_TRY(decode_sensitivity(fields));
  out.arrival = FALAJ_TRY(decode_arrival(fields));
  for (const Value& feature : FALAJ_TRY(fields.list("features"))) {
    Fields inner(feature, where + " features");
    const Sensitivity said = FALAJ_TRY(decode_sensitivity(inner));
    if (said != Sensitivity::kUnsaid) out.features[feature.text("name")] = said;
  }
  return out;
}

}  // namespace falaj::features

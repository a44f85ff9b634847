#include "security/residency/regime.h"

#include <algorithm>

#include "base/decode.h"
#include "base/units.h"

namespace falaj::security::residency {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Result<std::vector<Ground>> grounds_of(Fields& fields) {
  std::vector<Ground> grounds;
  for (const Value& item : FALAJ_TRY(fields.list("grounds"))) {
    Fields of_ground(item, fields.where() + " grounds");
    Ground ground;
    ground.name = FALAJ_TRY(of_ground.required_text("name"));
    ground.meaning = FALAJ_TRY(of_ground.required_text("meaning"));
    FALAJ_TRY(of_ground.finish());
    FALAJ_TRY(check_name("ground", ground.name));
    grounds.push_back(std::move(ground));
  }
  return grounds;
}

Status check_regime(const Regime& regime, const std::string& where) {
  FALAJ_TRY(check_name("regime", regime.name));
  FALAJ_TRY(parse_timestamp(regime.as_of));
  if (!regime.notice.starts_with("Not legal advice")) {
    return Error(ErrorId::kInvalidArgument,
                 where + ": 'notice' must begin with \"Not legal advice\"");
  }
  if (regime.sources.empty()) {
    return Error(ErrorId::kMissingField, where + ": 'sources' is empty: name the articles");
  }
  if (regime.breach_deadline <= Duration{}) {
    return Error(ErrorId::kOutOfRange, where + ": 'breach_deadline' must be above zero");
  }
  if (regime.retention < Duration{}) {
    return Error(ErrorId::kOutOfRange, where + ": 'retention' must not be negative");
  }
  for (const std::string& kind : regime.evidence) FALAJ_TRY(check_name("evidence", kind));
  for (const std::string& code : regime.exceptions) FALAJ_TRY(check_name("exception", code));
  if (regime.processing_abroad == ProcessingAbroad::kException && regime.exceptions.empty()) {
    return Error(ErrorId::kInvalidArgument,
                 where + ": 'processing_abroad: exception' needs a list of 'exceptions'");
  }
  return {};
}

Value texts(const std::vector<std::string>& list) {
  Value out = Value::array();
  for (const std::string& text : list) out.push(text);
  return out;
}

}  // namespace

bool Regime::has_ground(const std::string& ground) const {
  return std::any_of(grounds.begin(), grounds.end(),
                     [&](const Ground& known) { return known.name == ground; });
}

bool Regime::has_exception(const std::string& code) const { return contains(exceptions, code); }

Result<Regime> regime_from_value(const Value& value, const std::string& where) {
  Fields fields(value, where);
  Regime regime;
  regime.name = FALAJ_TRY(fields.required_text("name"));
  regime.title = FALAJ_TRY(fields.required_text("title"));
  regime.territory = FALAJ_TRY(fields.required_text("territory"));
  regime.as_of = FALAJ_TRY(fields.required_text("as_of"));
  regime.notice = FALAJ_TRY(fields.required_text("notice"));
  regime.sources = FALAJ_TRY(fields.texts("sources"));
  regime.conflicts = FALAJ_TRY(fields.texts("conflicts"));
  regime.retention = FALAJ_TRY(fields.duration("retention", Duration{}));
  regime.breach_deadline = FALAJ_TRY(fields.duration("breach_deadline", Duration{}));
  regime.grounds = FALAJ_TRY(grounds_of(fields));
  regime.evidence = FALAJ_TRY(fields.texts("evidence"));
  regime.exceptions = FALAJ_TRY(fields.texts("exceptions"));
  const std::string abroad =
      FALAJ_TRY(fields.choice("processing_abroad", {"under-transfer", "exception"}));
  if (abroad == "exception") regime.processing_abroad = ProcessingAbroad::kException;
  const std::string clients =
      FALAJ_TRY(fields.choice("undeclared_clients", {"at-this-machine", "refused"}));
  if (clients == "refused") regime.undeclared_clients = UndeclaredClients::kRefused;
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_regime(regime, where));
  return regime;
}

Value to_value(const Regime& regime) {
  Value out = Value::object();
  out["name"] = regime.name;
  out["title"] = regime.title;
  out["territory"] = regime.territory;
  out["as_of"] = regime.as_of;
  out["notice"] = regime.notice;
  out["sources"] = texts(regime.sources);
  out["conflicts"] = texts(regime.conflicts);
  out["retention"] = to_string(regime.retention);
  out["breach_deadline"] = to_string(regime.breach_deadline);
  out["evidence"] = texts(regime.evidence);
  out["exceptions"] = texts(regime.exceptions);
  Value grounds = Value::array();
  for (const Ground& ground : regime.grounds) {
    Value row = Value::object();
    row["name"] = ground.name;
    row["meaning"] = ground.meaning;
    grounds.push(std::move(row));
  }
  out["grounds"] = std::move(grounds);
  out["processing_abroad"] =
      regime.processing_abroad == ProcessingAbroad::kException ? "exception" : "under-transfer";
  out["undeclared_clients"] =
      regime.undeclared_clients == UndeclaredClients::kRefused ? "refused" : "at-this-machine";
  return out;
}

}  // namespace falaj::security::residency

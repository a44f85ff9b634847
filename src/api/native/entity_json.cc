#include "api/native/entity_json.h"

#include "base/json.h"

namespace falaj::api {

namespace dom = simdjson::dom;

const char* parse_object(std::string_view body, dom::object& out) {
  if (body.empty()) return "the body is empty";
  // One parser a thread: its buffers grow once and are reused for every request.
  thread_local dom::parser parser;
  dom::element root;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) {
    return "not valid JSON";
  }
  return root.get(out) == simdjson::SUCCESS ? nullptr : "not an object";
}

Status EntityList::add(dom::element entity) {
  if (count_ == all_.size()) all_.emplace_back();
  features::EntityKeys& keys = all_[count_++];
  keys.clear();
  dom::object object;
  if (entity.get(object) != simdjson::SUCCESS) {
    return Error{ErrorId::kWrongType, std::string(where_) + ": an entity is an object of key: id"};
  }
  keys.reserve(object.size());
  for (const dom::key_value_pair member : object) {
    std::int64_t number = 0;
    std::string_view text;
    if (member.value.get(number) == simdjson::SUCCESS) {
      keys.emplace_back(std::string(member.key), number);
    } else if (member.value.get(text) == simdjson::SUCCESS) {
      keys.emplace_back(std::string(member.key), std::string(text));
    } else {
      return Error{ErrorId::kWrongType, std::string(where_) + ": key '" + std::string(member.key) +
                                            "' must be a whole number or a text"};
    }
  }
  return {};
}

Status EntityList::add_all(dom::element list, std::size_t most) {
  dom::array items;
  if (list.get(items) != simdjson::SUCCESS) {
    return Error{ErrorId::kWrongType, std::string(where_) + ": entities must be a list"};
  }
  for (const dom::element item : items) {
    if (count_ == most) {
      return Error{ErrorId::kOutOfRange, std::string(where_) + ": over " + std::to_string(most) +
                                             " entities; split the request"};
    }
    FALAJ_TRY(add(item));
  }
  return {};
}

void append_entity(std::string& out, const features::EntityKeys& keys) {
  out += '{';
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, keys[i].first);
    out += ':';
    if (const auto* number = std::get_if<std::int64_t>(&keys[i].second)) {
      out += std::to_string(*number);
    } else {
      append_json_string(out, std::get<std::string>(keys[i].second));
    }
  }
  out += '}';
}

}  // namespace falaj::api

// api/native/entity_json.h — entities of a JSON body: {"customer_id": 42}, or a list of them.
//
// For codecs only: it shows simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "features/online.h"

namespace falaj::api {

// Null, or what is wrong with the body. The object is valid until this thread parses the next.
const char* parse_object(std::string_view body, simdjson::dom::object& out);

// Fills a request's entities from the first, using again what stood there before.
class EntityList {
 public:
  // `where` begins every message and outlives this.
  EntityList(std::string_view where, std::vector<features::EntityKeys>& all)
      : where_(where), all_(all) {}
  ~EntityList() { all_.resize(count_); }
  EntityList(const EntityList&) = delete;
  EntityList& operator=(const EntityList&) = delete;

  std::size_t count() const { return count_; }
  // FJ-1005 for what is no object of whole numbers and texts.
  Status add(simdjson::dom::element entity);
  // FJ-1006 past `most`.
  Status add_all(simdjson::dom::element list, std::size_t most);

 private:
  std::string_view where_;
  std::vector<features::EntityKeys>& all_;
  std::size_t count_ = 0;
};

void append_entity(std::string& out, const features::EntityKeys& keys);

}  // namespace falaj::api

#include "api/native/openapi.h"

#include <gtest/gtest.h>

namespace falaj::api {
namespace {

TEST(OpenApi, lists_each_declared_route_with_its_permission) {
  net::Router router;
  const auto handler = [](const net::Request&) { return net::Response::json("{}"); };
  router.add(net::Route(net::Method::kGet, "/api/v1/runs/{id}", net::Permission("models.read"),
                        net::Target::record("Run", "id"), "One run.", handler));
  net::Route upload(net::Method::kPost, "/api/v1/views/{name}:ingest",
                    net::Permission("data.ingest"), net::Target::object("FeatureView", "name"),
                    "Ingests.", handler);
  upload.body_to = net::BodyTo::kFile;
  router.add(std::move(upload));
  net::Route page(net::Method::kGet, "/", net::Permission::anyone(), net::Target::nothing(),
                  "The console.", handler);
  page.dialect = "console";
  router.add(std::move(page));

  const Value document = openapi_document(router, "1.2.3");
  EXPECT_EQ(document["info"].text("version"), "1.2.3");
  const Value& run = document["paths"]["/api/v1/runs/{id}"]["get"];
  EXPECT_EQ(run.text("x-permission"), "models.read");
  EXPECT_EQ(run["parameters"].as_array().front().text("name"), "id");
  const Value& ingest = document["paths"]["/api/v1/views/{name}:ingest"]["post"];
  EXPECT_TRUE(ingest["requestBody"]["content"].has("application/octet-stream"));
  EXPECT_FALSE(document["paths"].has("/"));
}

}  // namespace
}  // namespace falaj::api

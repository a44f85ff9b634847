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

  net::GrpcMethod reads("/t.T/Read", net::GrpcMethod::Kind::kStream, net::Permission("models.read"),
                        net::Target::qualified("Deployment", "model"), "Reads.", nullptr);
  reads.unnamed = net::Route(net::Method::kPost, "/t.T/Read", net::Permission("models.list"),
                             net::Target::across_projects("Deployment"), "Lists.", nullptr);

  const Value document = openapi_document(router, {reads}, "1.2.3");
  const auto& methods = document["x-grpc"].as_array();
  ASSERT_EQ(methods.size(), 2U);
  EXPECT_EQ(methods[0].text("x-permission"), "models.read");
  EXPECT_EQ(methods[0]["named"], Value(true));
  EXPECT_EQ(methods[1].text("x-target"), "Deployment of every project, as visible");
  EXPECT_EQ(methods[1]["named"], Value(false));
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

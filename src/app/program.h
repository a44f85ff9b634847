// app/program.h — a running Falaj: everything wired, listening, ticking.
#pragma once

#include <memory>
#include <string>

#include "app/restart.h"
#include "app/wiring.h"

namespace falaj::app {

class Program {
 public:
  // Opens the data folder, recovers what a dead process left, listens. The error says what to do.
  static Result<std::unique_ptr<Program>> start(const Options& options, const Clock& clock);
  // Stops taking requests, lets running ones finish for a second, stops jobs (they are tried again
  // at the next start), closes the stores.
  ~Program();

  // Tells the audit log that the program is to be replaced, or why it was not.
  Status note_restart(Value detail);
  // Tells clients to connect anew, lets what runs finish for `limit`, and leaves the sockets
  // listening. Nothing is served afterwards. An error changes nothing.
  Result<Listeners> retire(Duration limit);

  std::string url() const;
  // "127.0.0.1:7071", or "" when gRPC is not served.
  std::string grpc_address() const;
  // The deployment's own authority; null in `falaj dev`.
  const security::Certificates* certificates() const { return tls_.certificates.get(); }
  // The link that makes the first administrator; "" when there is one, and in `falaj dev`.
  std::string setup_link() const;
  const net::Router& router() const { return *http_.router; }
  const std::vector<net::GrpcMethod>& grpc_methods() const { return http_.grpc_methods; }
  telemetry::Metrics& metrics() { return metrics_; }
  security::residency::Exits& exits() { return *storage_.exits; }

 private:
  explicit Program(const Clock& clock) : clock_(clock) {}
  Status open(const Options& options);
  Status open_identity(const Options& options);
  Status first_objects();
  void sign_head();
  void start_ticking(const Options& options);
  void start_renewing();
  jobs::CommandIdentity::Server door_of(const Options& options) const;

  const Clock& clock_;
  telemetry::Metrics metrics_;
  Storage storage_;
  AuditTrail trail_;
  Tls tls_;
  std::unique_ptr<security::Identity> identity_;
  AccessControl control_;
  Features features_;
  jobs::CommandIdentity::Server door_;  // For jobs with a network; known once there is a port.
  Training training_;
  Serving serving_;
  std::unique_ptr<catalog::Catalog> catalog_;
  Http http_;
  std::string scheme_ = "http";
  std::string host_;
  std::unique_ptr<exec::Ticker> journal_;     // Of reads and predictions.
  std::unique_ptr<exec::Ticker> audit_;       // Signed heads of the audit tree.
  std::unique_ptr<exec::Ticker> reconcile_;   // Deployments and monitors.
  std::unique_ptr<exec::Ticker> parity_;      // Apart: opens segments.
  std::unique_ptr<exec::Ticker> rollouts_;    // Judges, and takes back.
  std::unique_ptr<exec::Ticker> candidates_;  // Apart: loads models.
  std::unique_ptr<exec::Ticker> shadows_;     // Apart: candidates answer here.
  std::unique_ptr<exec::Ticker> loop_;        // Apart: a step may freeze and score for minutes.
  std::unique_ptr<exec::Ticker> webhooks_;    // Apart: waits for other systems.
  std::unique_ptr<exec::Ticker> live_;        // What consoles see.
  std::unique_ptr<exec::Ticker> renewal_;     // Certificates.
  std::unique_ptr<exec::Ticker> accounts_;    // Sessions, tokens, the identity provider's keys.
};

// Every kind that can be declared, from the modules that own them.
std::vector<storage::KindInfo> all_kinds();

}  // namespace falaj::app

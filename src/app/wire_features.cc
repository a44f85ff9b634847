#include "app/wiring.h"
#include "features/arrivals.h"

namespace falaj::app {

Result<Features> wire_features(const FeatureOptions& options, Storage& storage,
                               telemetry::Metrics& metrics, const Clock& clock) {
  Features parts;
  parts.samples = std::make_unique<features::ParitySamples>(options.parity_every);
  parts.parity = std::make_unique<features::Parity>(
      features::ParityServices{*storage.sql, *storage.blobs, *storage.audit, metrics, clock},
      *parts.samples);
  parts.online = FALAJ_TRY(
      features::Online::open(*storage.sql, *storage.kv, *storage.blobs, {parts.samples.get()}));
  parts.ingest = std::make_unique<features::Ingest>(*storage.sql, *storage.blobs, *parts.online,
                                                    *storage.audit, metrics, clock);
  parts.pushes = std::make_unique<features::Pushes>(*parts.ingest, *storage.blobs, *storage.audit,
                                                    metrics, clock);
  parts.explainer =
      std::make_unique<features::Explainer>(*storage.sql, *storage.blobs, *storage.audit, clock);
  parts.training_sets =
      std::make_unique<features::TrainingSets>(*storage.sql, *storage.blobs, *storage.audit, clock,
                                               features::TrainingSetOptions{options.join_memory});
  features::declare_arrival_metrics(metrics);
  return parts;
}

}  // namespace falaj::app

/** All services of the platform: adding one is a line here. */

import type { Service } from '#runtime/start/service.ts'
import { auditWriter } from '#services/access/audit/writer/service.ts'
import { mainApi } from '#services/main-api/service.ts'
import { outboxPublisher } from '#services/outbox/publisher/service.ts'
import { hub } from '#services/records/api/service.ts'
import { noteIndexer } from '#services/records/note-indexer/service.ts'
import { runDispatcher } from '#services/runs/dispatch/service.ts'
import { runGateway } from '#services/runs/gateway/service.ts'
import { referenceNodes } from '#services/runs/reference-node/service.ts'
import { vectorGateway } from '#services/vectors/gateway/service.ts'
import { relationalWriter } from '#services/vectors/relational/service.ts'
import { vectorWriter } from '#services/vectors/write/service.ts'
import { webhookCourier } from '#services/webhooks/deliver/service.ts'
import { webhookRelay } from '#services/webhooks/fire/service.ts'

export const services: readonly Service[] = [
  vectorGateway,
  mainApi,
  hub,
  runGateway,
  vectorWriter,
  relationalWriter,
  auditWriter,
  noteIndexer,
  outboxPublisher,
  // Before those that read the nodes file: it writes that of a first start.
  referenceNodes,
  webhookRelay,
  webhookCourier,
  runDispatcher,
]

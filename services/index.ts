/** All services of the platform: adding one is a line here. */

import type { Service } from '#runtime/service.ts'
import { auditWriter } from './audit-writer/service.ts'
import { outboxPublisher } from './outbox-publisher/service.ts'
import { relationalWriter } from './relational-writer/service.ts'
import { vectorGateway } from './vector-gateway/service.ts'
import { vectorWriter } from './vector-writer/service.ts'
import { webhookCourier } from './webhook-courier/service.ts'
import { webhookRelay } from './webhook-relay/service.ts'

export const services: readonly Service[] = [
  vectorGateway,
  vectorWriter,
  relationalWriter,
  auditWriter,
  outboxPublisher,
  webhookRelay,
  webhookCourier,
]

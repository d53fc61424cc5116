/** Every bench, in the order in which they are listed. */

import { localSearchBench } from '../packages/stidx/bench/local-search.ts'
import type { Bench } from './bench.ts'
import { consumerBench } from './consumer.ts'
import { embedderBench } from './embedder.ts'
import { failoverBench } from './failover.ts'
import { filtersBench } from './filters.ts'
import { fleetBench } from './fleet.ts'
import { footprintBench } from './footprint.ts'
import { hubBench } from './hub.ts'
import { installBench } from './install.ts'
import { instancesBench } from './instances.ts'
import { mainApiBench } from './main-api.ts'
import { meteringBench } from './metering.ts'
import { mirrorBench } from './mirror.ts'
import { pressureBench } from './pressure.ts'
import { priceBench } from './price.ts'
import { producerBench } from './producer.ts'
import { pythonClientBench } from './python-client.ts'
import { restBench } from './rest.ts'
import { runsBench } from './runs.ts'
import { searchBench } from './search.ts'
import { searchDistributedBench } from './search-distributed.ts'
import { searchPgBench } from './search-pg.ts'
import { searchPgOthersBench } from './search-pg-others.ts'
import { upsertBench } from './upsert.ts'
import { upsertDistributedBench } from './upsert-distributed.ts'
import { webhooksBench } from './webhooks.ts'

export const benches: readonly Bench[] = [
  searchBench,
  filtersBench,
  searchPgBench,
  searchPgOthersBench,
  upsertBench,
  embedderBench,
  consumerBench,
  producerBench,
  localSearchBench,
  webhooksBench,
  hubBench,
  runsBench,
  pythonClientBench,
  mirrorBench,
  meteringBench,
  mainApiBench,
  upsertDistributedBench,
  searchDistributedBench,
  restBench,
  priceBench,
  instancesBench,
  footprintBench,
  installBench,
  failoverBench,
  fleetBench,
  pressureBench,
]

/** What the main API gets from its process. */

import type { ServiceContext } from '#runtime/start/service.ts'

type MainApiEngines = 'eventLog' | 'relational' | 'identity' | 'vectors' | 'embedder'
export type MainApiContext = ServiceContext<
  MainApiEngines,
  { MAIN_API_URL?: string; CUSTOM_TOKEN_TTL_S: number }
>

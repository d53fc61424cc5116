/** Runs that are claimed with their acceptance, on the embedded relational engine. */

import { openEmptyRelational } from '../support/relational.ts'
import { describeRunsAtOnce } from './runs-at-once.promises.ts'

describeRunsAtOnce('the embedded engine', () => openEmptyRelational())

/** Turns of callers at a busy node on the embedded relational engine. */

import { openEmptyRelational } from '../support/relational.ts'
import { describeTurnsOfRuns } from './runs-turns.promises.ts'

describeTurnsOfRuns('the embedded engine', () => openEmptyRelational())

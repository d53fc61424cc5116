/** Schedules on the embedded relational engine. */

import { openEmptyRelational } from '../support/relational.ts'
import { describeSchedules } from './runs-schedules.promises.ts'

describeSchedules('the embedded engine', () => openEmptyRelational())

/** The dispatcher on the embedded relational engine. */

import { openEmptyRelational } from '../support/relational.ts'
import { describeDispatcher } from './runs-dispatcher.promises.ts'

describeDispatcher('the embedded engine', () => openEmptyRelational())

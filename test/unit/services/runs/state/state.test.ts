/** The rows of runs on the embedded relational engine. */

import { openEmptyRelational } from '../../../../support/relational.ts'
import { describeRows } from './state.promises.ts'

describeRows(() => openEmptyRelational())

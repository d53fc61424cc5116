/** Messages of runs on the embedded relational engine. */

import { openEmptyRelational } from '../../../../support/relational.ts'
import { describeMessages } from './message.promises.ts'

describeMessages(() => openEmptyRelational())

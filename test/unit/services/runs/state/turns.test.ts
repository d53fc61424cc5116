/** Turns at nodes on the embedded relational engine. */

import { openEmptyRelational } from '../../../../support/relational.ts'
import { describeTurns } from './turns.promises.ts'

describeTurns(() => openEmptyRelational())

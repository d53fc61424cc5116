/** Whose runs are, on the embedded relational engine. */

import { openEmptyRelational } from '../../../../support/relational.ts'
import { describeUsers } from './users.promises.ts'

describeUsers(() => openEmptyRelational())

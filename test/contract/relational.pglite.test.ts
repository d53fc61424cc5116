/** The contract of the relational engine, run on the embedded driver. */

import { openEmptyRelational } from '../support/relational.ts'
import { describeRelational } from './relational.contract.ts'

describeRelational('embedded', { open: () => openEmptyRelational() })

import { openEmptyRelational } from '../support/relational.ts'
import { describeRelational } from './relational.contract.ts'

describeRelational('embedded', { open: () => openEmptyRelational() })

/** Questions of agents and their answers on the embedded relational engine. */

import { openEmptyRelational } from '../support/relational.ts'
import { describeQuestions } from './runs-questions.promises.ts'

describeQuestions('the embedded engine', () => openEmptyRelational())

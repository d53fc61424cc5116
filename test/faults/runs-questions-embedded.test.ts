/** kill -9 of the whole embedded platform around questions of agents. */

import { describeQuestionKills } from './runs-questions-kills.promises.ts'

// One process has all services.
describeQuestionKills('embedded', async () => ({ env: {}, gateway: [] }))

// push --namesrv A --topic T --group G [--tags EXPR | --sql EXPR] [--from first|last] [--broadcast] [--fail-times N]
'use strict';

const { Consumer } = require('ali-ons');
const { client } = require('./options');
const { print, received } = require('./messages');

const WHERE = { first: 'CONSUME_FROM_FIRST_OFFSET', last: 'CONSUME_FROM_LAST_OFFSET', timestamp: 'CONSUME_FROM_TIMESTAMP' };

async function push(options) {
  const consumer = new Consumer({
    ...client(options),
    consumerGroup: options.group,
    consumeFromWhere: WHERE[options.from || 'first'],
    isBroadcast: Boolean(options.broadcast),
    ...(options.instance && { instanceName: options.instance }),
    ...(options['max-reconsume'] && { maxReconsumeTimes: Number(options['max-reconsume']) }),
  });
  consumer.on('error', error => console.error(error.message));
  consumer.subscribe(options.topic, selector(options), listener(Number(options['fail-times'] || 0)));
  await consumer.ready();
  print({ ready: true });
  for await (const _ of process.stdin); // until there is nothing more to read
  await consumer.close();
}

function selector(options) {
  return options.sql ? { expressionType: 'SQL92', subString: options.sql } : options.tags || '*';
}

// Refuses a message as long as it was consumed fewer times than --fail-times says.
function listener(failTimes) {
  return async message => {
    received(message);
    return message.reconsumeTimes < failTimes ? Consumer.ACTION_RETRY : undefined;
  };
}

module.exports = { push };
